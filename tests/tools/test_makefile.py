import os
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

MAKEFILE = Path(__file__).parent.parent.parent / "Makefile"


@unittest.skipUnless(shutil.which("make"), "make is not installed")
class MakefileTests(unittest.TestCase):
    """With programs in the place of meson and ninja that write down how they were called."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        shutil.copy(MAKEFILE, self.root)
        (self.root / "build").mkdir()
        (self.root / "build/build.ninja").touch()
        for name in "bin/meson", "bin/ninja", "tools/packages.sh", "tools/test.sh", "tools/soak.sh":
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'#!/bin/sh\necho "{path.name} $*${{DESTDIR:+ to $DESTDIR}}" >>"{self.root}/log"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, *arguments):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        env = {key: value for key, value in os.environ.items()
               if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DESTDIR", "prefix")}
        subprocess.run(["make", "-s", "-C", self.root, *arguments], check=True,
                       env=env | {"PATH": path}, stdout=subprocess.DEVNULL)
        log = self.root / "log"
        said = log.read_text().splitlines()
        log.unlink()
        return said

    def test_a_prefix_is_not_remembered(self):
        self.assertIn("meson configure build -Dprefix=/usr", self.make("prefix=/usr", "install"))
        self.assertIn("meson configure build -Dprefix=/usr/local", self.make("install"))

    def test_destdir_is_passed_on(self):
        said = self.make("install", "DESTDIR=/tmp/tree")
        self.assertIn("meson install -C build --no-rebuild to /tmp/tree", said)

    def test_plain_make_tests_nothing(self):
        said = self.make()
        self.assertEqual(said, ["packages.sh build", "ninja -C build"])
        (self.root / "build/build.ninja").unlink()
        self.assertIn("meson setup build -Dtests=disabled", self.make())

    def test_a_part_of_the_tests(self):
        self.assertEqual(self.make("quick"), ["packages.sh build test",
                                              "test.sh format floors size listed tools unit "
                                              "touched"])
        self.assertEqual(self.make("test", "STEPS=gcc asan")[-1], "test.sh gcc asan")

    def test_long_tests_are_told_how_long(self):
        self.assertEqual(self.make("soak", "HOURS=8")[-1], "soak.sh 8")


if __name__ == "__main__":
    unittest.main()
