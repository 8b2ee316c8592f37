import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import floors


class Floors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def check(self, **files):
        """Keys are paths, with __ for a slash; they end in .c, with _h in .h."""
        for name, text in files.items():
            name = name.replace("__", "/")
            name = name[:-2] + ".h" if name.endswith("_h") else name + ".c"
            path = Path(self.folder.name, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = floors.main([self.folder.name])
        self.assertEqual(status, 1 if out.getvalue() else 0)
        return out.getvalue()

    def test_below_and_beside_are_allowed(self):
        self.assertEqual(self.check(pull__a='#include "pull/b.h"\n#include "base/err.h"\n'
                                            '#include <web/from-elsewhere.h>\n'), "")

    def test_above_is_a_fault_with_its_line(self):
        said = self.check(git__a='#include "git/a.h"\n\n#include "lease/lease.h"\n')
        self.assertIn("git/a.c:3: includes lease/lease.h", said)
        self.assertIn("lease/ stands above git/", said)

    def test_a_sibling_is_a_fault(self):
        self.assertIn("are siblings", self.check(pull__a='#include "push/b.h"\n'))

    def test_main_may_use_all(self):
        self.assertEqual(self.check(main='#include "node/a.h"\n#include "cli/b.h"\n'), "")

    def test_programs_use_the_base_only(self):
        self.assertEqual(self.check(run__a='#include "base/proc_wire.h"\n'), "")
        self.assertIn("uses base/ only", self.check(hook__a='#include "store/store.h"\n'))

    def test_nobody_uses_a_program(self):
        self.assertIn("program of its own", self.check(cli__a='#include "run/a.h"\n'))

    def test_an_unknown_folder_is_a_fault(self):
        self.assertIn("does not know", self.check(odd__a=""))
        self.assertIn("knows", self.check(cli__b='#include "odd/a.h"\n'))

    def test_a_path_that_names_no_folder_is_a_fault(self):
        self.assertIn("includes b.h", self.check(cli__a='#include "b.h"\n'))
        self.assertIn("includes ../web/b.h", self.check(cli__a='#include "../web/b.h"\n'))

    def test_a_comment_is_no_include(self):
        self.assertEqual(self.check(base__a='/*\n#include "cli/a.h"\n*/\n'), "")

    def test_spaces_do_not_hide_an_include(self):
        self.assertIn("base/a.c:1", self.check(base__a='  #  include "cli/a.h"\n'))

    def test_what_is_declared_below_is_not_defined_above(self):
        said = self.check(cli__a='int a_run(void)\n{\n\treturn 0;\n}\n',
                          base__b_h='int a_run(void);\n')
        self.assertIn("cli/a.c:1: defines a_run, which", said)
        self.assertEqual(self.check(cli__a='static int a_run(void)\n{\n}\n',
                                    base__b_h='int a_run(void);\n'), "")

    def test_each_folder_stands_on_one_floor(self):
        folders = [folder for row in floors.FLOORS for folder in row]
        self.assertEqual(len(folders), len(set(folders)))


if __name__ == "__main__":
    unittest.main()
