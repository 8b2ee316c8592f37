# nginx before ./one, with the configuration that docs/operations.md shows, but without TLS.
# Needs tap.sh and two_sites.sh.

# Where its example stands, "server" and all, without the lines that are about TLS.
documented_proxy() { # PORT
	awk '/^    server \{/ { on = 1 } on { print } /^    \}/ { if (on) exit }' \
		"$NGINX_DOCS/operations.md" |
		sed -e '/ssl_certificate/d; /listen \[::\]/d' \
			-e "s,listen 443 ssl,listen 127.0.0.1:$1," \
			-e "s,http://127.0.0.1:8418,${NGINX_TO:-$(site_url one)},"
}

NGINX_DOCS=$(cd "${BASH_SOURCE[0]%/*}/../../docs" && pwd)
NGINX=$(PATH=$PATH:/usr/sbin command -v nginx || true)

# $NGINX_TO is what it passes requests on to, and more settings of that place; else ./one.
start_nginx() { # [LINE...]: more of the part http
	local user=
	[ -n "$NGINX" ] || skip "nginx is not installed"
	[ "$(id -u)" -ne 0 ] || user='user root;'
	mkdir -p nginx
	NGINX_PORT=$(free_port)
	{
		cat <<-END
			$user
			daemon off;
			worker_processes 1;
			pid $PWD/nginx/pid;
			error_log $PWD/nginx/error;
			events { worker_connections 1024; }
			http {
			access_log $PWD/nginx/access;
			client_body_temp_path $PWD/nginx/body;
			fastcgi_temp_path $PWD/nginx/fastcgi;
			proxy_temp_path $PWD/nginx/proxy;
			scgi_temp_path $PWD/nginx/scgi;
			uwsgi_temp_path $PWD/nginx/uwsgi;
		END
		[ $# -eq 0 ] || printf '%s\n' "$@"
		documented_proxy "$NGINX_PORT"
		echo '}'
	} >nginx/conf
	"$NGINX" -e "$PWD/nginx/error" -p "$PWD/nginx" -c "$PWD/nginx/conf" &
	NGINX_PID=$!
	wait_until 10 is_nginx_there
}

is_nginx_there() {
	curl -fsS -m 5 -o nginx/answer "http://127.0.0.1:$NGINX_PORT/healthz" ||
		{ cat nginx/error; return 1; }
}

stop_nginx() {
	kill "$NGINX_PID"
	wait "$NGINX_PID" || true
}
