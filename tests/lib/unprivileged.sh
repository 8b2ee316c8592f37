# Nodes that may read no more than their user may, also where the tests run as root.
#
#	make_unprivileged	$REFRELAY is such a one from now on

make_unprivileged() {
	[ "$(id -u)" -eq 0 ] || return 0
	cat >unprivileged <<-END
		#!/bin/sh
		exec setpriv --bounding-set=-dac_override,-dac_read_search "$REFRELAY" "\$@"
	END
	chmod +x unprivileged
	export REFRELAY=$PWD/unprivileged
}
