import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))

from queue_api import Unreadable, fresh, read, taken_off


class Queue(unittest.TestCase):
    def test_a_list_is_read_and_nonsense_refused(self):
        self.assertEqual(read(200, b'[{"id":"1"}]'), [{"id": "1"}])
        for status, body in ((200, b"nonsense"), (503, b""), (0, b"")):
            with self.assertRaises(Unreadable):
                read(status, body)

    def test_what_is_out_isnt_brought_again(self):
        entries = [{"id": "1"}, {"id": "2"}, {"id": "3"}]
        self.assertEqual(fresh(entries, {"1"}, 1), [{"id": "2"}])
        self.assertEqual(fresh(entries, set(), 0), [])

    def test_what_is_gone_is_lost_and_no_failure(self):
        self.assertEqual([taken_off(status)[0] for status in (204, 404, 500, 0)], ["done", "lost", "failed", "failed"])


if __name__ == "__main__":
    unittest.main()
