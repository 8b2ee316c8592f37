import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import links


class Links(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name, "doc")

    def faults(self, text):
        """Of a document a/b.md, beside a/c.md."""
        (self.root / "a").mkdir(parents=True, exist_ok=True)
        (self.root / "a" / "b.md").write_text(text)
        (self.root / "a" / "c.md").write_text("# Two words, `code`\n\n## Same\n\n## Same\n")
        (self.root.parent / "outside.md").write_text("# It is there\n")
        return links.check(self.root)

    def test_what_leads_somewhere(self):
        self.assertEqual(self.faults(
            "# Here\n[one](c.md), [two](#here), ![three](../a), [four](c.md#two-words-code),\n"
            "[five](c.md#same-1), [six](https://example.com/nothing.md), [seven\nwords](c.md)\n"
        ), [])

    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.faults("see [this](d.md) and [that](c.md)\n"),
                         ["a/b.md: d.md is not there"])

    def test_a_link_over_the_end_of_a_line(self):
        self.assertEqual(self.faults("[two\nwords](d.md)\n"), ["a/b.md: d.md is not there"])

    def test_a_heading_that_is_not_there(self):
        self.assertEqual(self.faults("[x](#nowhere) [y](c.md#same-2)\n"),
                         ["a/b.md: #nowhere has no such heading",
                          "a/b.md: c.md#same-2 has no such heading"])

    def test_what_is_not_installed_is_out_of_reach(self):
        self.assertEqual(self.faults("[x](../../outside.md)\n"),
                         ["a/b.md: ../../outside.md leads out of the directory"])

    def test_code_has_no_links(self):
        self.assertEqual(self.faults("`[x](d.md)`\n\n```\n[x](d.md)\n# [y](e.md)\n```\n"), [])

    def test_a_directory_without_documents_is_a_mistake(self):
        self.root.mkdir()
        self.assertEqual(len(links.check(self.root)), 1)


if __name__ == "__main__":
    unittest.main()
