"""What the package promises beyond what asyncio's own tests ask (`asyncio_suite.py`)."""

import asyncio
import os
import threading
import time
import unittest

import tickless
from tickless import timers


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def in_time(attempt):
    """Calls `attempt` with longer and longer delays, until it does not say that the machine was too slow for one."""
    for delay in (0.02, 0.2, 2, 20):
        if attempt(delay):
            return
    raise AssertionError("the machine took 20 seconds for a few calls")


class LoopTests(unittest.TestCase):
    def test_no_timer_fires_early_and_all_fire_in_order(self):
        async def main():
            loop = asyncio.get_running_loop()
            fired = []
            over = loop.create_future()
            for number in range(50):
                # The later ones first.
                at = loop.time() + (50 - number) * 300e-6
                loop.call_at(at, lambda at=at: fired.append((at, loop.time())))
            loop.call_later(0.02, over.set_result, None)
            await over
            return fired

        fired = tickless.run(main())
        self.assertEqual(len(fired), 50)
        self.assertEqual(fired, sorted(fired))
        for at, when in fired:
            self.assertGreaterEqual(when, at - 1e-6)

    def test_timers_are_not_in_the_heap_of_asyncio(self):
        loop = tickless.new_event_loop()
        self.addCleanup(loop.close)
        loop.call_later(0.001, loop.stop)
        self.assertEqual(loop._scheduled, [])
        loop.run_forever()
        loop.call_later(0.001, loop.stop)
        self.assertEqual(loop._scheduled, [])
        self.assertEqual(len(timers.here().pending()), 1)
        loop.run_forever()
        self.assertEqual(timers.here().pending(), [])

    def test_a_cancelled_timer_gives_its_structure_back(self):
        async def main():
            loop = asyncio.get_running_loop()
            for _ in range(100):
                loop.call_later(60, self.fail).cancel()
            own = timers.here()
            return len(own._slots), len(own.pending())

        self.assertEqual(tickless.run(main()), (1, 0))

    def test_a_loop_may_go_to_another_thread_with_its_timers(self):
        in_time(self.moves_to_another_thread)

    def moves_to_another_thread(self, delay):
        loop = tickless.new_event_loop()
        self.addCleanup(loop.close)
        fired = []
        loop.call_later(0.001, loop.stop)
        kept = loop.call_later(delay, lambda: (fired.append(threading.get_ident()), loop.stop()))
        dropped = loop.call_later(delay * 3 / 4, fired.append, "dropped")
        loop.run_forever()
        if fired:
            return False

        def on_another():
            dropped.cancel()
            loop.run_forever()
            fired.append(threading.get_ident())

        thread = threading.Thread(target=on_another)
        thread.start()
        thread.join(60)
        self.assertEqual(len(fired), 2)
        self.assertEqual(fired[0], fired[1])
        self.assertFalse(kept.cancelled())
        return True

    def test_a_timer_of_another_thread_is_not_lost(self):
        loop = tickless.new_event_loop()
        self.addCleanup(loop.close)
        loop.call_soon(lambda: threading.Thread(target=loop.call_later, args=(0.001, loop.stop)).start())
        guard = threading.Timer(60, os._exit, (1,))
        guard.daemon = True
        guard.start()
        loop.run_forever()
        guard.cancel()

    def test_two_loops_of_a_thread_keep_their_timers(self):
        in_time(self.two_loops)

    def two_loops(self, delay):
        first, second = tickless.new_event_loop(), tickless.new_event_loop()
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        fired = []
        first.call_later(delay, fired.append, 1)
        first.call_soon(first.stop)
        first.run_forever()
        if fired:
            return False
        second.run_until_complete(asyncio.sleep(delay * 2))
        self.assertEqual(fired, [])
        second.close()
        first.call_soon(first.stop)
        first.run_forever()
        first.run_until_complete(asyncio.sleep(0))
        self.assertEqual(fired, [1])
        return True

    def test_loops_and_threads_use_the_descriptors_of_those_before_them(self):
        async def both():
            await tickless.sleep(0.0001)

        def work():
            tickless.run(both())
            asyncio.run(both())

        def work_on_a_thread():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            # `join` returns before the thread has ended for the system. A thread that begins before that gets another
            # descriptor than the one that the ending thread gives back.
            while os.path.exists(f"/proc/self/task/{thread.native_id}"):
                time.sleep(0.001)

        work()
        work_on_a_thread()
        before = descriptors()
        for _ in range(5):
            work()
            work_on_a_thread()
        self.assertEqual(descriptors(), before)

    def test_times_that_are_none(self):
        async def main():
            loop = asyncio.get_running_loop()
            with self.assertRaises(ValueError):
                loop.call_at(float("nan"), self.fail)
            with self.assertRaises(TypeError):
                loop.call_at(None, self.fail)
            loop.call_later(float("inf"), self.fail).cancel()
            loop.call_at(1e300, self.fail).cancel()
            over = loop.create_future()
            loop.call_at(-1e300, over.set_result, 3)
            return await over

        self.assertEqual(tickless.run(main()), 3)

    def test_the_policy_makes_these_loops(self):
        asyncio.set_event_loop_policy(tickless.EventLoopPolicy())
        self.addCleanup(asyncio.set_event_loop_policy, None)

        async def main():
            return type(asyncio.get_running_loop())

        self.assertIs(asyncio.run(main()), tickless.EventLoop)


class SleepTests(unittest.TestCase):
    def both(self, make):
        for run in (asyncio.run, tickless.run):
            with self.subTest(run=run.__module__):
                run(make())

    def test_it_is_not_early_and_returns_its_result(self):
        async def main():
            for delay in (0, -1, 1e-5, 0.003):
                start = time.monotonic()
                self.assertEqual(await tickless.sleep(delay, "result"), "result")
                self.assertGreaterEqual(time.monotonic() - start, delay - 1e-6)

        self.both(main)

    def test_many_at_once(self):
        async def main():
            delays = [number % 97 * 1e-4 for number in range(1000)]
            results = await asyncio.gather(*(tickless.sleep(delay, delay) for delay in delays))
            self.assertEqual(results, delays)
            self.assertEqual(timers.here().pending(), [])

        self.both(main)

    def test_a_cancelled_sleep_takes_its_timer_back(self):
        async def main():
            task = asyncio.ensure_future(tickless.sleep(60))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.assertEqual(len(timers.here().pending()), 1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(timers.here().pending(), [])

        self.both(main)

    def test_a_delay_that_is_no_number_is_refused(self):
        async def main():
            with self.assertRaises(ValueError):
                await tickless.sleep(float("nan"))

        asyncio.run(main())
        tickless.run(main())


if __name__ == "__main__":
    unittest.main()
