"""What bench/ counts where no control group can be made, and of programs that take long to start."""

import contextlib
import io
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

BENCH = Path(__file__).parent.parent.parent / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "lib")]

import account
import rows_leases
import serve

BUSY_S = 0.3


class Bench(unittest.TestCase):
    def setUp(self):
        machine = types.SimpleNamespace(
            groups=None, processes=types.SimpleNamespace(count=lambda: None))
        patch = unittest.mock.patch.object(account.Account, "machine", machine)
        patch.start()
        self.addCleanup(patch.stop)

    def cpu_of_client(self, busy):
        with account.Account("test").measure(busy=busy) as cost:
            subprocess.run([sys.executable, "-c", "import time\n"
                            f"while time.process_time() < {BUSY_S}: pass"], check=True)
        return cost.cpu

    def test_clients_count_only_if_they_are_to(self):
        self.assertGreaterEqual(self.cpu_of_client(True), BUSY_S)
        self.assertLess(self.cpu_of_client(False), BUSY_S / 3)

    def shown_cpu(self, group):
        server = unittest.mock.Mock(account=types.SimpleNamespace(group=group))
        server.name = "ours"
        with contextlib.redirect_stdout(io.StringIO()) as output:
            serve.show("title", {server: {"time": 1, "CPU": 2}}, time="{} s", CPU="{} s CPU")
        self.assertIn("1 s", output.getvalue())
        return "CPU" in output.getvalue()

    def test_cpu_is_left_out_without_a_group(self):
        self.assertTrue(self.shown_cpu("a group"))
        self.assertFalse(self.shown_cpu(None))

    def test_the_start_of_node_is_not_its_work(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(
                rows_leases, "redlock_folder", types.SimpleNamespace(name=folder)):
            cost, outputs = rows_leases.run_redlock(
                account.Account("test"), 0.1, lambda seconds: [
                    [sys.executable, "-c", "import time\n"
                     f"while time.process_time() < {BUSY_S}: pass\n"
                     f"time.sleep({seconds}); print(7)"]] * 2)
        self.assertEqual(outputs, [["7"], ["7"]])
        self.assertLess(cost.cpu, BUSY_S)


if __name__ == "__main__":
    unittest.main()
