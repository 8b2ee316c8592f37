# Sites that are pushed to over HTTP. Needs tap.sh, sites.sh and two_sites.sh.
#
#	give_token SITE NAME RIGHTS [PATTERN...]	a token at SITE, in ./NAME.token
#	url_as NAME SITE REPOSITORY			its URL with that token
#	make_clone URL FOLDER				a clone with a user, on main
#	commit_in FOLDER [TEXT]				one commit on its branch
#	tip PATH [REF]					what a bare repository has there
#	events_of SITE REPOSITORY			how many events of it

give_token() { # SITE NAME RIGHTS [PATTERN...]
	local site=$1 name=$2 rights=$3

	shift 3
	[ -s "$name.token" ] || (umask 077 && head -c 24 /dev/urandom | base64 | tr +/ ab >"$name.token")
	set_conf "$site" "token.$name.file" "$PWD/$name.token"
	set_conf "$site" "token.$name.rights" "$rights"
	for pattern; do
		git config --file "$site/refrelay.conf" --add "token.$name.repository" "$pattern"
	done
}

url_as() { # NAME SITE REPOSITORY
	local url
	url=$(site_url "$2")
	echo "http://any:$(cat "$1.token")@${url#http://}/$3.git"
}

make_clone() { # URL FOLDER
	git clone -q "$1" "$2"
	git -C "$2" checkout -q -B main
}

commit_in() { # FOLDER [TEXT]
	echo "${2:-$RANDOM$RANDOM}" >"$1/file"
	git -C "$1" add file
	git -C "$1" commit -qm "${2:-change}"
}

tip() { # PATH [REF]
	git -C "$1" rev-parse -q --verify "${2:-refs/heads/main}"
}

events_of() { # SITE REPOSITORY
	at "$1" events | grep -c "\"name\":\"$2\""
}
