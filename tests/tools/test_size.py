import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import size


def function(lines, declaration="static int work(int a)"):
    """One whose braces and body are `lines` lines together."""
    return f"{declaration}\n{{\n" + "\ta++;\n" * (lines - 2) + "}\n"


class Size(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_size(self, text, name="a.c", check=True):
        path = Path(self.folder.name, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = size.main((["--check"] if check else []) + [self.folder.name])
        path.unlink()
        return status, out.getvalue()

    def test_the_limit_itself_is_allowed(self):
        self.assertEqual(self.run_size(function(100)), (0, ""))
        self.assertEqual(self.run_size(function(60), check=False), (0, ""))

    def test_one_line_more_is_not(self):
        status, said = self.run_size("\n" + function(101))
        self.assertEqual(status, 1)
        self.assertIn("a.c:3: work has 101 lines", said)

    def test_without_check_it_prints_but_does_not_fail(self):
        status, said = self.run_size(function(61), check=False)
        self.assertEqual(status, 0)
        self.assertIn("work has 61 lines", said)

    def test_structs_and_tables_are_no_functions(self):
        rows = "\t{ 1, 2 },\n" * 150
        self.assertEqual(self.run_size("static const int table[] = {\n" + rows + "};\n"),
                         (0, ""))

    def test_short_functions_do_not_add_up(self):
        self.assertEqual(self.run_size(function(50) * 5), (0, ""))

    def test_names(self):
        for declaration, name in (
                ("void tell(const char *a,\n\t  int (*b)(void))", "tell"),
                ("TEST(a_sentence_is_the_name)", "a_sentence_is_the_name"),
                ("__attribute__((noreturn)) static void leave(void)", "leave")):
            _, said = self.run_size(function(101, declaration))
            self.assertIn(f": {name} has", said)

    def test_long_files_and_headers(self):
        self.assertEqual(self.run_size("\n" * 1000), (0, ""))
        self.assertIn("file of 1001", self.run_size("\n" * 1001)[1])
        self.assertEqual(self.run_size("\n" * 200, "a.h"), (0, ""))
        self.assertIn("header of 201", self.run_size("\n" * 201, "a.h")[1])
        self.assertEqual(self.run_size("\n" * 201, "tests/a.h"), (0, ""))

    def test_longest_first(self):
        _, said = self.run_size(function(110, "int a(void)") + function(120, "int b(void)"))
        self.assertLess(said.index(": b has"), said.index(": a has"))


if __name__ == "__main__":
    unittest.main()
