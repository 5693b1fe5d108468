# SPDX-License-Identifier: Apache-2.0
"""tap.py FILE... - runs the tests of unittest files; prints "ok NAME" or "not NAME" for each, and
what failed on stderr."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Rows(unittest.TestResult):
    def addSuccess(self, test):
        print("ok", test.id())

    def addSkip(self, test, reason):
        print("ok", f"{test.id()} # SKIP {reason}")

    def fault(self, test, error):
        print("not", test.id())
        print(self._exc_info_to_string(error, test), file=sys.stderr)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.fault(test, error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            super().addSubTest(test, subtest, error)
            print(subtest.id(), file=sys.stderr)
            self.fault(test, error)


result = Rows()
for file in sys.argv[1:]:
    name = os.path.basename(file)[: -len(".py")]
    unittest.defaultTestLoader.loadTestsFromName(name).run(result)
sys.exit(not result.wasSuccessful() or not result.testsRun)
