# A thin cover for Meson, so that people can type `make`. It installs the Debian packages
# that are missing (tools/packages.sh says which, and why), then builds into build/.
#
#	make                build/refrelay; no tests are built, no warning is an error
#	make demo           two sites with sample repositories, and proof that they are equal;
#	                    REPOSITORIES=/srv/git copies your own (they are only read)
#	make demo-mirror    a mirror of an upstream for two watchers with tokens of their own
#	make test           all checks and tests; STEPS="gcc asan" only some of them
#	make quick          the checks, the unit tests, and site tests of what is changed:
#	                    less than three minutes
#	make soak           those that take hours; HOURS=8 says how many
#	make install        DESTDIR and prefix as usual; prefix is not remembered
#	make deb            the Debian package, into build/
#	make clean          removes what was built

prefix = /usr/local

all:
	@tools/packages.sh build
	@test -f build/build.ninja || meson setup build -Dtests=disabled
	@ninja -C build

demo: all
	@tools/packages.sh demo
	@tools/demo.sh

demo-mirror: all
	@tools/packages.sh demo
	@tools/demo.sh mirror

test:
	@tools/packages.sh build deb test
	@tools/test.sh $(STEPS)

quick:
	@tools/packages.sh build test
	@tools/test.sh format floors size listed tools unit touched

soak:
	@tools/packages.sh build test
	@tools/soak.sh $(HOURS)

install: all
	@meson configure build -Dprefix='$(prefix)'
	@ninja -C build --quiet
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild

deb:
	@tools/packages.sh build deb
	@tools/deb.sh

clean:
	rm -rf build build-asan build-gcc build-tsan

.PHONY: all clean deb demo demo-mirror install quick soak test
