import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import count_tests


class CountTests(unittest.TestCase):
    def count(self, *records, options=()):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            for result, stdout, *stderr in records:
                log.write(json.dumps({"name": "refrelay:unit / a", "result": result, "stdout": stdout,
                                      "stderr": "".join(stderr)}) + "\n")
            log.flush()
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(count_tests.main([*options, log.name]), 0)
        return out.getvalue().strip()

    def test_each_tap_test_counts(self):
        self.assertEqual(self.count(("OK", "1..2\nok 1 - a\nok 2 - b\n"),
                                    ("OK", "ok 1\n1..1\n")), "3 0 0")

    def test_failures_and_skips(self):
        self.assertEqual(self.count(("FAIL", "ok 1\nnot ok 2 - b\nok 3 # SKIP no room\n")),
                         "1 1 1")

    def test_a_program_without_tap_is_one_test(self):
        self.assertEqual(self.count(("OK", ""), ("FAIL", ""), ("SKIP", "")), "1 1 1")

    def test_a_crash_after_good_tests_is_a_failure(self):
        for result in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT"):
            self.assertEqual(self.count((result, "ok 1\nok 2\n")), "2 1 0")

    def test_words_that_only_look_like_tap(self):
        self.assertEqual(self.count(("OK", "okay\n# ok 1\nok 1\n")), "1 0 0")

    def test_programs_that_failed_are_named(self):
        self.assertEqual(self.count(("OK", "ok 1\n"), ("FAIL", "ok 1\nnot ok 2 - b\n"),
                                    ("TIMEOUT", "ok 1\n"), options=["--failed"]),
                         "a\tnot ok 2 - b\na\ttimeout")

    def test_what_failed_is_told_with_it(self):
        self.assertEqual(self.count(("FAIL", "not ok 1 - a\n# line 3: false\n# \n#  that\nok 2\n# no\n"),
                                    options=["--failed"]), "a\tnot ok 1 - a: line 3: false | that")
        told = self.count(("FAIL", f"not ok 1\n# one{'x' * 999}\n# last\n"), options=["--failed"])
        self.assertRegex(told, "one.* [.][.][.] .*last$")
        self.assertLess(len(told), 450)
        self.assertEqual(self.count(("FAIL", "not ok 1 - a\n# line 3\n", "x\nERROR: it is late\nERROR: no\n"),
                                    options=["--failed"]), "a\tnot ok 1 - a: line 3 | ERROR: it is late")


if __name__ == "__main__":
    unittest.main()
