"""What tells of statements of tests that nobody heeds when they fail."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).parent.parent / "lib" / "unheeded.awk"


class Unheeded(unittest.TestCase):
    def told(self, *lines):
        """The numbers of the lines, in a function, that are told of."""
        text = "it() {\n" + "".join(f"\t{line}\n" for line in lines) + "}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(text)
            file.flush()
            output = subprocess.run(["awk", "-f", PROGRAM, file.name], check=True,
                                    capture_output=True, text=True).stdout
        return [int(number) - 1 for number in re.findall(r"\.sh:(\d+): ", output)]

    def test_in_the_middle(self):
        self.assertEqual(self.told("a && b", "c"), [1])
        self.assertEqual(self.told("a &&", "\tb", "c && d", "", "# e", "f"), [1, 3])
        self.assertEqual(self.told("[ \"$(a && b)\" = x ] && b || c", "[ a ] && b >c", "d"),
                         [2])
        self.assertEqual(self.told("! a && b", "c"), [1])
        self.assertEqual(self.told("a \\", "\tb && c", "d"), [1])

    def test_the_last_one(self):
        self.assertEqual(self.told("a", "b && c"), [])
        self.assertEqual(self.told("(", "\ta && b", ")", "c"), [])
        self.assertEqual(self.told("(", "\ta && b", "\tc", ")", "d"), [2])
        self.assertEqual(self.told("a && b", "exit"), [])
        self.assertEqual(self.told("a && b", "return 1"), [1])
        self.assertEqual(self.told("a && b", "status=$?", "c"), [])

    def test_the_last_one_of_what_is_no_function(self):
        self.assertEqual(self.told("if a && b; then", "\tc && d", "fi"), [])
        self.assertEqual(self.told("if a; then", "\tc && d", "else", "\te", "fi"), [])
        self.assertEqual(self.told("if a; then", "\tc && d", "else", "\te", "fi", "f"), [2])
        self.assertEqual(self.told("if a; then", "\tc && d", "\te", "fi"), [2])
        self.assertEqual(self.told("for a; do", "\tb && c", "done"), [2])
        self.assertEqual(self.told("case a in", "b)", "\tc && d", "\t;;", "*) e ;;", "esac"), [])
        self.assertEqual(self.told("case a in", "b)", "\tc && d", "\t;;", "*) e ;;", "esac", "f"),
                         [3])
        self.assertEqual(self.told("{", "\ta && b", "} || c", "d"), [])

    def test_what_is_meant_so(self):
        self.assertEqual(self.told("a && return", "b && continue", "c && fail d",
                                   "e && { f; return 1; }", "g && h || i", "j"), [])
        self.assertEqual(self.told("a && {", "\tb", "}", "c"), [])
        self.assertEqual(self.told("while a && b; do", "\tc", "done", "d"), [])
        self.assertEqual(self.told("a && b &", "c"), [])

    def test_what_is_no_statement(self):
        self.assertEqual(self.told("a 'b && c'", "d \"e && f\"", "g # h && i", "$(j && k)",
                                   "[[ a && b ]]", "l"), [5])
        self.assertEqual(self.told("a <<-END", "\tb && c", "END", "d"), [])
        self.assertEqual(self.told("a '", "b && c", "'", "d"), [])
        self.assertEqual(self.told("a $(", "\tb && c", ")", "d"), [])


if __name__ == "__main__":
    unittest.main()
