import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))

from reserve import Refused, read, reserve


class Reserve(unittest.TestCase):
    def test_an_order_is_reserved_up_to_the_most(self):
        self.assertEqual(reserve(10, {"sku": "tea", "count": 10}), {"sku": "tea", "reserved": 10})
        with self.assertRaises(Refused):
            reserve(10, {"sku": "tea", "count": 11})

    def test_input_that_makes_no_sense_is_refused_for_good(self):
        for act in (lambda: read(b"nonsense"), lambda: reserve(10, None)):
            with self.assertRaises(Refused):
                act()


if __name__ == "__main__":
    unittest.main()
