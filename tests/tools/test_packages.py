import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).parent.parent.parent / "tools" / "packages.sh"


class Packages(unittest.TestCase):
    """With programs in the place of dpkg-query and apt-get that know of all packages but some."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.program("dpkg-query", f'grep -qx "$4" {self.root}/lacking || echo installed')
        self.program("apt-get", f'echo "$*" >>{self.root}/log')
        self.program("id", "echo 0")

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, text):
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def installed_without(self, *lacking):
        """The packages that are installed for a build, when these are lacking."""
        (self.root / "lacking").write_text("".join(f"{name}\n" for name in lacking))
        log = self.root / "log"
        log.write_text("")
        subprocess.run(["bash", PROGRAM, "build"], check=True, stderr=subprocess.DEVNULL,
                       env=os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"})
        return [word for line in log.read_text().splitlines() if " install " in line
                for word in line.partition("--no-install-recommends ")[2].split()]

    def test_what_is_there_is_not_installed(self):
        self.assertEqual(self.installed_without(), [])
        self.assertEqual(self.installed_without("zlib1g-dev", "meson"), ["meson", "zlib1g-dev"])

    def test_either_curl_is_good(self):
        self.assertEqual(self.installed_without("libcurl4-gnutls-dev"), [])
        self.assertEqual(self.installed_without("libcurl4-gnutls-dev", "libcurl4-openssl-dev"),
                         ["libcurl4-gnutls-dev"])


if __name__ == "__main__":
    unittest.main()
