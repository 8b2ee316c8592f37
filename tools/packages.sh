#!/usr/bin/env bash
# usage: tools/packages.sh make|build|demo|deb|test...
#
# Installs the Debian packages that these purposes need and that are missing; says which,
# and what for. Without a Debian package manager it only leaves a word: the build itself
# then names what it does not find.
set -uo pipefail

make_packages=(
	'make runs what the README says'
)
build_packages=(
	'meson          describes the build'
	'ninja-build    runs the build'
	'pkgconf        finds the libraries'
	'gcc            compiles'
	'libc6-dev      C library, headers and the static one'
	'git            does what refrelay asks of Git repositories'
	'libjansson-dev JSON'
	'libssl-dev     checksums'
	'libsqlite3-dev tracking database'
	'libmicrohttpd-dev HTTP server'
	'libgnutls28-dev TLS of the HTTP server'
	'libcurl4-gnutls-dev HTTP client, with the TLS of the HTTP server'
	'libhiredis-dev protocol of Redis'
	'libpq-dev      PostgreSQL'
	'libjwt-dev     signed requests between sites'
	'zlib1g-dev     compressed request bodies, small packs'
	'libgit2-dev    objects of repositories, read without a child'
	'libpcre2-dev   patterns of projects and refs'
	'libxxhash-dev  hashes of tables (its header is all that is used)'
	'libcrypt-dev   passwords of an htpasswd file'
)
demo_packages=(
	'curl           asks whether a node serves'
	'python3        finds ports that are free'
)
deb_packages=(
	'build-essential what building Debian packages takes for granted'
	'debhelper      builds a Debian package'
	'dpkg-dev       describes and packs it'
)
test_packages=(
	'libcmocka-dev      unit tests'
	'clang              second compiler, fuzzing'
	'clang-format       checks the formatting'
	'libclang-rt-14-dev sanitizers and fuzzer of clang'
	'lld                links the tests, of which there are many, fast'
	'llvm               names the functions in their reports'
	'python3            runs the checks in tools/'
	'procps             looks for processes that were left behind'
	'strace             looks at system calls'
	'curl               asks the HTTP server'
	'openssh-server     a destination by ssh'
	'openssh-client     what git uses to reach it'
	'nginx-light        the web server before a site, as the manual has it'
	'git-lfs            the client of Git LFS'
	'faketime           gives a site a wrong clock'
	'gnupg              signs pushes'
	'redis-server       keeps leases'
	'postgresql         keeps leases, too'
	'pgbouncer          stands between'
	'nodejs             runs a program whose locks are kept where our leases are'
	'npm                fetches it; nodejs from elsewhere has it, and excludes this package'
	'golang-go          builds another one'
	'chromium           shows the page for people'
	'python3-venv       holds grokmirror, which follows a site, and schemathesis, which asks one'
	'prometheus         takes the metrics of nodes; its promtool checks the rules'
	'e2fsprogs          makes file systems whose power is cut'
	'lintian            checks the Debian package'
	'debootstrap        makes the fresh Debian that it is installed in'
	'zsh                reads its completions'
	'fish               reads its completions, too'
	'spin               looks at all runs of the model in tests/model/'
)

is_installed() {
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# What may come from elsewhere than Debian, or by another name, and is as good.
is_there() { # PACKAGE
	case $1 in
	nodejs) command -v node ;;
	npm) command -v npm ;;
	golang-go) command -v go ;;
	prometheus) command -v promtool && command -v prometheus ;;
	python3-venv) python3 -c 'import ensurepip' ;;
	# Each excludes the other: apt-get would remove the one that other work takes.
	libcurl4-gnutls-dev) is_installed libcurl4-openssl-dev ;;
	*) false ;;
	esac >/dev/null || is_installed "$1"
}

# As root, or with a sudo that does not ask, or that has somebody to ask.
find_root() {
	as_root=()
	[ "$(id -u)" -eq 0 ] && return
	command -v sudo >/dev/null || return
	sudo -n true 2>/dev/null || [ -t 0 ] || return
	as_root=(sudo)
}

install_packages() {
	local apt=(env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq
		-o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)

	"${as_root[@]}" "${apt[@]}" update ||
		echo "The package lists could not be renewed; trying with the old ones." >&2
	"${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null
}

missing=()
rows=()
for purpose in "$@"; do
	case $purpose in
	make) wanted=("${make_packages[@]}") ;;
	build) wanted=("${build_packages[@]}") ;;
	demo) wanted=("${demo_packages[@]}") ;;
	deb) wanted=("${deb_packages[@]}") ;;
	test) wanted=("${test_packages[@]}") ;;
	*) echo "usage: tools/packages.sh make|build|demo|deb|test..." >&2; exit 2 ;;
	esac
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		[ "$purpose" = build ] && ! command -v meson >/dev/null &&
			printf 'This is no Debian; please install what does the work of:\n' >&2 &&
			printf '  %s\n' "${wanted[@]}" >&2
		continue
	fi
	for row in "${wanted[@]}"; do
		is_there "${row%% *}" && continue
		missing+=("${row%% *}")
		rows+=("$row")
	done
done
[ "${#missing[@]}" -eq 0 ] && exit 0

echo "Debian packages that are missing:" >&2
printf '  %s\n' "${rows[@]}" >&2
find_root
if [ "$(id -u)" -ne 0 ] && [ "${#as_root[@]}" -eq 0 ]; then
	printf 'Installing them takes root. As root, please type:\n\n' >&2
	printf '  apt-get update && apt-get install -y --no-install-recommends %s\n\n' \
		"${missing[*]}" >&2
	exit 1
fi
echo "Installing them..." >&2
install_packages "${missing[@]}" && exit 0
printf 'That failed. Please mend what apt-get said above; then this must succeed:\n\n' >&2
printf '  %sapt-get install -y --no-install-recommends %s\n\n' \
	"${as_root[*]:+sudo }" "${missing[*]}" >&2
exit 1
