import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import security_marks


class SecurityMarks(unittest.TestCase):
    def check(self, page, *names):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "tests/site").mkdir(parents=True)
            (root / "docs/security.md").write_text(page)
            (root / "tests/site/test_security.sh").write_text(
                "".join(f'tap_test "{name}" it\n' for name in names))
            (root / "other.sh").write_text('tap_test "it was there" it\n')
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = security_marks.main([folder])
        self.assertEqual(status, 1 if out.getvalue() else 0)
        return out.getvalue()

    def test_each_mark_has_a_test_or_a_line(self):
        page = "like [z9]\n## A\nOne [a1], two [a2].\n\n<!-- x\n[a2] other.sh: it was there\n-->\n"
        self.assertEqual(self.check(page, "[a1] one"), "")
        self.assertEqual(self.check(page), "[a1] is on the page and has no test\n")

    def test_a_line_must_be_true(self):
        said = self.check("\n## A\nTwo [a2].\n\n<!--\n[a2] other.sh: it was never there\n-->\n")
        self.assertIn('"it was never there" is not in other.sh', said)
        line = "[a2] other.sh: it was there\n"
        self.assertEqual(self.check(f"\n## A\nTwo [a2].\n\n<!--\n{line}{line}-->\n"),
                         "[a2] has two lines\n")
        said = self.check("\n## A\nTwo [a2].\n\n<!--\n[a2] other.sh\n-->\n")
        self.assertIn("not understood", said)

    def test_a_test_must_be_on_the_page(self):
        page = "\n## A\nOne [a1].\n"
        self.assertIn("[a2] has a test and is not", self.check(page, "[a1] one", "[a2] two"))
        self.assertIn("without a mark", self.check(page, "[a1] one", "two"))
        self.assertIn("has a test in", self.check(page, "[a1] one", "[a1] again"))
