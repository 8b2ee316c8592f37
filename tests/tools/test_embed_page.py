import base64
import gzip
import hashlib
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import embed_page

PAGE = "<!DOCTYPE html><style>%STYLE%</style><script>%SCRIPT%</script>"


class EmbedPage(unittest.TestCase):
    def test_what_nobody_reads_there_is_left_out(self):
        text = "/* why\n so */\n\ta {\n\t\tcolor: red; /* it stays */\n\t}\n\n\t// none\n"
        self.assertEqual(embed_page.squeeze(text), "a {\ncolor: red; /* it stays */\n}\n")

    def test_the_policy_fits_what_is_joined(self):
        document, policy = embed_page.join(PAGE, "a {}\n", "go();\n")
        self.assertEqual(document,
                         b"<!DOCTYPE html><style>a {}\n</style><script>go();\n</script>")
        for text in b"a {}\n", b"go();\n":
            digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", policy)
        self.assertNotIn("unsafe", policy)

    def test_what_would_end_the_script_is_refused(self):
        for script in "'</SCRIPT>'", "'<!--'":
            with self.assertRaises(SystemExit):
                embed_page.join(PAGE, "", script)
        with self.assertRaises(SystemExit):
            embed_page.join(PAGE, "a::before { content: '</style>' }", "")

    def test_a_page_without_a_place_for_one_is_refused(self):
        with self.assertRaises(SystemExit):
            embed_page.join("<style>%STYLE%</style>", "", "")

    def test_the_same_files_give_the_same_bytes(self):
        document, policy = embed_page.join(PAGE, "a {}\n", "go();\n")
        first = embed_page.render(document, policy)
        self.assertEqual(first, embed_page.render(document, policy))
        packed = re.search(r"page_packed_bytes\[\] = \{\n(.*?)\n\};", first, re.DOTALL).group(1)
        numbers = bytes(int(number) for number in packed.replace("\n", "").split(",") if
                        number.strip())
        self.assertEqual(gzip.decompress(numbers), document)

    def test_a_large_one_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("page.html", "page.css", "page.js", "out.c")]
            for path, text in zip(paths, (PAGE, "", "x" * embed_page.MOST)):
                path.write_text(text)
            with self.assertRaises(SystemExit):
                embed_page.main([str(path) for path in paths])
            self.assertFalse(paths[3].exists())


if __name__ == "__main__":
    unittest.main()
