"""The shell functions that the site tests stand on: a test that cannot fail is none."""

import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LIBRARY = Path(__file__).parent.parent / "lib"


class ShellLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The helper of the site tests, where no build has it yet."""
        cls.built = tempfile.TemporaryDirectory()
        program = Path(cls.built.name, "site_help")
        subprocess.run(["cc", "-D_GNU_SOURCE", "-o", program, LIBRARY / "site_help.c",
                        "-ljansson"], check=True)
        cls.environment = {**os.environ, "SITE_HELP": str(program)}
        cls.help = program

    @classmethod
    def tearDownClass(cls):
        cls.built.cleanup()

    def run_script(self, body, status):
        """Runs one test, the function `it`; its output."""
        with tempfile.TemporaryDirectory() as folder:
            script = f". {LIBRARY}/tap.sh\n. {LIBRARY}/sites.sh\n{body}\n" \
                     "tap_test 'a sentence' it\ntap_done\n"
            done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60,
                                  env={**self.environment, "TMPDIR": folder}, check=False)
            self.assertEqual(os.listdir(folder), [], "something was left behind")
        output = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, status, output)
        self.assertTrue(output.endswith("1..1\n"), output)
        return output

    def passes(self, body):
        output = self.run_script(body, 0)
        self.assertIn("ok 1 - a sentence\n", output)
        return output

    def fails(self, body):
        output = self.run_script(body, 1)
        self.assertIn("not ok 1 - a sentence\n", output)
        return output

    def test_ports_are_no_other_scripts_and_none_is_said_twice(self):
        self.passes(f"""
            . {LIBRARY}/two_sites.sh
            it() {{
                local other port
                for port in $(seq 40); do free_port; done >mine
                other=$("$SITE_HELP" adopt sh -c 'echo "$TAP_PORTS"')
                [ "$(sort -u mine | wc -l)" -eq 40 ]
                while read -r port; do
                    [ "$port" -lt "$other" ] || [ "$port" -ge $((other + 100)) ]
                done <mine
            }}""")

    def test_what_differs_surely_is_told_without_git_and_only_while_it_is_waited_for(self):
        self.passes("""
            it() {
                make_repository a.git 3
                git clone -q --mirror a.git b.git # packed
                is_waiting=1
                fails differs_still a.git b.git refs/heads/main
                find_ref b.git refs/heads/main
                [ "$ref_value" = "$(git -C a.git rev-parse main)" ]
                fails find_ref b.git refs/heads/mai
                fails find_ref b.git HEAD # symbolic
                fails differs_still a.git nowhere.git refs/heads/main
                add_commits a.git refs/heads/main 1
                [ "$(git -C a.git rev-list --count main)" -eq 4 ]
                differs_still a.git b.git refs/heads/main
                git -C b.git fetch -q origin # loose over packed
                fails differs_still a.git b.git refs/heads/main
                add_commits b.git refs/heads/main 1
                unset is_waiting
                fails differs_still a.git b.git refs/heads/main
            }""")

    def test_files_of_site_tests_may_be_elsewhere_than_those_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            self.environment = {**self.environment, "SITE_TMPDIR": folder}
            self.passes(f"it() {{ [[ $PWD == {folder}/* && $TMPDIR = {folder} ]]; }}")

    def test_a_good_test_passes_quietly(self):
        self.assertEqual(self.passes("it() { echo talk; true; }"),
                         "ok 1 - a sentence\n1..1\n")

    def test_any_failing_command_fails_and_its_output_is_shown(self):
        output = self.fails("it() { echo before; ls /not/there; true; }")
        self.assertIn("# before", output)
        self.assertIn("/not/there", output)

    def test_a_failing_pipe_an_unset_variable_and_a_syntax_error_fail(self):
        self.fails("it() { false | cat; true; }")
        self.fails("it() { echo $no_such_variable; true; }")
        self.fails("it() { eval 'if'; true; }")

    def test_fails_turns_it_round(self):
        self.passes("it() { fails false; }")
        self.fails("it() { fails true; true; }")

    def test_expect_wants_exactly_that_status(self):
        self.passes("it() { expect 3 sh -c 'echo a; echo b >&2; exit 3'; grep -qx a out; "
                    "grep -qx b err; }")
        self.assertIn("status 3 instead of 0", self.fails("it() { expect 0 sh -c 'exit 3'; }"))

    def test_what_is_set_up_is_shared_and_lives_until_the_end(self):
        self.passes("up() { sleep 60 & echo $! >pid; }; tap_set_up up\n"
                    "it() { kill -0 $(cat $SHARED/pid); }\n")
        for up in ("false", "false; true", "fail no", "false | true; true"):
            output = self.run_script(f"up() {{ {up}; }}; tap_set_up up; it() {{ true; }}", 1)
            self.assertIn("not ok 1 - what the tests share is set up", output)
        self.assertIn("ok 1 - what the tests share is set up # SKIP no room",
                      self.run_script("up() { skip no room; }; tap_set_up up; it() { false; }", 0))

    def test_skip_counts_as_skipped(self):
        self.assertIn("ok 1 - a sentence # SKIP no room",
                      self.run_script("it() { skip no room; }", 0))

    def test_wait_until_waits_and_gives_up(self):
        self.passes("it() { (sleep 0.3; touch a) & wait_until 10 test -e a; }")
        started = time.monotonic()
        self.assertIn("did not become true", self.fails("it() { wait_until 1 test -e a; }"))
        self.assertLess(time.monotonic() - started, 10)

    def test_leftovers_are_killed(self):
        mark = f"{os.getpid()}.5"
        self.passes(f"it() {{ sleep 9{mark} & (cd /; setsid env -i A=$TEST_DIR sleep 9{mark} &)\n"
                    f"env -i sleep 9{mark} & }}")
        running = subprocess.run(["pgrep", "-xf", f"sleep 9{mark}"], capture_output=True,
                                 check=False)
        self.assertEqual(running.stdout, b"")

    def test_leftovers_that_heed_no_signal_are_killed(self):
        mark = f"{os.getpid()}.6"
        self.passes(f"it() {{ sleep 9{mark} & kill -STOP $!\n"
                    f"(trap '' TERM; exec sleep 8{mark}) & }}")
        running = subprocess.run(["pgrep", "-xf", f"sleep [89]{mark}"], capture_output=True,
                                 check=False)
        self.assertEqual(running.stdout, b"")

    def test_what_is_shared_is_no_leftover_of_a_test(self):
        self.passes("up() { sh -c 'sleep 60 & echo $! >pid; wait' & wait_until 5 test -s pid; }\n"
                    "tap_set_up up\n"
                    "it() { sleep 60 & test \"$(tap_leftovers)\" = $!; "
                    "kill -0 $(cat $SHARED/pid); }\n")

    def member(self, text, path):
        done = subprocess.run([self.help, "member", path], input=text.encode(),
                              capture_output=True, check=False)
        return done.returncode, done.stdout.decode()

    def test_a_member_of_json_is_printed_as_it_is(self):
        text = '{"a": {"b": 7, "c": null, "d": true, "e": "x y", "f": ""}, "n": null}'
        for path, wanted in (("a.b", "7"), ("a.c", ""), ("a.d", "true"), ("a.e", "x y"),
                             ("a.f", ""), ("n.x", "")):
            self.assertEqual(self.member(text, path), (0, wanted + "\n"))
        self.assertEqual(self.member(text, "a.z"), (1, ""))
        self.assertEqual(self.member("{", "a"), (1, ""))

    def test_the_callers_git_configuration_does_not_matter(self):
        self.passes("export GIT_DIR=/not/there\n"
                    "it() { git init -q a; git -C a commit -q --allow-empty -m one; }")

    def test_a_script_that_ends_early_fails(self):
        done = subprocess.run(["bash", "-c", f". {LIBRARY}/tap.sh; tap_test a true; exit 0"],
                              capture_output=True, timeout=60, env=self.environment,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Bail out!", done.stdout)

    TREES = "it() { mkdir s s/deep d; make_repository s/deep/a 30; make_repository s/b.git 3\n" \
            "git init -q --bare s/empty.git\n" \
            "cp -r s/deep d; mv d/deep/a d/deep/a.git; cp -r s/b.git s/empty.git d\n"

    def test_equal_trees_are_equal(self):
        self.passes(self.TREES + "test \"$(list_repositories s | tr '\\n' ' ')\" = "
                                 "'b.git deep/a empty.git '; equal_trees s d; }")

    def test_each_difference_is_seen(self):
        for change in (
                "git -C d/b.git update-ref refs/heads/more refs/heads/main",
                "git -C d/b.git update-ref refs/heads/main refs/heads/main~1",
                "git -C d/b.git update-ref -d refs/heads/main",
                "git -C d/b.git symbolic-ref HEAD refs/heads/other",
                "git -C d/b.git update-ref --no-deref HEAD refs/heads/main",
                "git -C s/b.git symbolic-ref refs/heads/x refs/heads/main\n"
                "git -C d/b.git update-ref refs/heads/x refs/heads/main",
                "echo other >d/b.git/description",
                "rm d/b.git/description",
                "rm -r d/b.git",
                "rm -rf d/b.git; mkdir d/b.git",
                "git init -q --bare d/more.git",
                "rm -rf d/deep/a.git/objects/*",
                "git -C d/b.git rev-parse main^{tree} | sed 's,^..,&/,' >x\n"
                "chmod u+w d/b.git/objects/$(cat x); echo broken >d/b.git/objects/$(cat x)",
                "rm -rf s/* d/*",
        ):
            with self.subTest(change=change):
                self.passes(self.TREES + change + "\nfails equal_trees s d; }")

    def test_a_fault_of_the_source_is_told_but_is_no_difference(self):
        output = self.fails(self.TREES + "for a in s d; do\n"
                            "git -C $a/b.git rev-parse main^{tree} | sed 's,^..,&/,' >x\n"
                            "rm -f $a/b.git/objects/$(cat x); done\n"
                            "equal_trees s d; false; }")
        self.assertIn("(so has its source)", output)
        self.assertNotIn("differ", output)


if __name__ == "__main__":
    unittest.main()
