# A thin cover for Meson, so that people can type `make`. It installs the Debian packages
# that are missing (tools/packages.sh says which, and why), then builds into build/.
#
#	make                build/refrelay
#	make demo           two sites with sample repositories, and proof that they are equal;
#	                    REPOSITORIES=/srv/git copies your own (they are only read)
#	make test           all checks and tests; STEPS="gcc asan" only some of them
#	make install        DESTDIR and prefix as usual
#	make clean          removes what was built

prefix =

all:
	@tools/packages.sh build
	@test -f build/build.ninja || meson setup build
	@$(if $(prefix),meson configure build -Dprefix='$(prefix)')
	@ninja -C build

demo: all
	@tools/packages.sh demo
	@tools/demo.sh

test:
	@tools/packages.sh build test
	@tools/test.sh $(STEPS)

install: all
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild

clean:
	rm -rf build build-asan build-clang build-fuzz build-tsan

.PHONY: all demo test install clean
