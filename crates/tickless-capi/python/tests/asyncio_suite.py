"""Runs asyncio's own tests of timers and loops on the loop of this package.

They are the tests that the interpreter was installed with; without them this says so and ends with 77. The tests of
`TestLoop`, whose clock is a list of numbers, say nothing of this loop, and are not among these.
"""

import asyncio
import sys
import unittest

import tickless

try:
    from test.test_asyncio import test_events, utils
except ImportError as error:
    print(f"left out: this Python has no tests of asyncio: {error}")
    sys.exit(77)

#: Modules that make their loops by the policy.
MODULES = (
    "test_timeouts",
    "test_waitfor",
    "test_locks",
    "test_queues",
    "test_taskgroups",
    "test_runners",
    "test_futures2",
    "test_pep492",
)

#: Tests that look into what the loop is made of, or replace it, each with the reason.
LEFT_OUT = {}


class Loop(test_events.UnixEventLoopTestsMixin, utils.TestCase):
    """The tests that asyncio asks each of its loops to pass."""

    def create_event_loop(self):
        return tickless.new_event_loop()


def tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests(test)
        else:
            yield test


def main():
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite()
    found = list(tests(loader.loadTestsFromTestCase(Loop)))
    for name in MODULES:
        try:
            found += tests(loader.loadTestsFromName(f"test.test_asyncio.{name}"))
        except (ImportError, AttributeError):
            print(f"left out: this Python has no test.test_asyncio.{name}")
    for test in found:
        reason = LEFT_OUT.get(test.id().rpartition(".")[2])
        if reason is None:
            suite.addTest(test)
        else:
            print(f"left out: {test.id()}: {reason}")
    asyncio.set_event_loop_policy(tickless.EventLoopPolicy())
    result = unittest.TextTestRunner(verbosity=1, stream=sys.stdout).run(suite)
    print(f"{result.testsRun} tests, {len(result.skipped)} skipped")
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
