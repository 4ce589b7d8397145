"""An event loop whose `call_at` and `call_later` are timers of the library.

The loop of asyncio keeps its timers in a heap, and waits for the first of them in whole milliseconds. This one has no
timer in its heap: each handle has a timer of the library, and the loop watches the descriptor that says that one is
due. Everything else is asyncio's.

Ground rules: a handle's `_scheduled` holds its slot while its timer is pending. Timers are started by the thread that
runs the loop; those of other threads wait in `_waiting`, as do all before the first run, and are started by the loop.
"""

import asyncio
import selectors
import sys
import threading

from . import timers


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with exact timers."""

    def __init__(self, selector=None):
        self._timers = None
        self._waiting = []
        super().__init__(selector)

    def run_forever(self):
        """Runs until `stop` is called, on timers of this thread."""
        if not self.is_closed() and not self.is_running():
            self._move_here()
        super().run_forever()

    def call_at(self, when, callback, *args, context=None):
        """Has a callback called at a time of `time()`; returns its handle. Raises ValueError if it is not a number."""
        if when is not None:
            timers.nanoseconds(when)
        handle = super().call_at(when, callback, *args, context=context)
        self._scheduled.remove(handle)
        own = self._timers
        if own is not None and own.thread == threading.get_ident():
            self._start(handle)
        else:
            self._waiting.append(handle)
            if self.is_running():
                self.call_soon_threadsafe(self._start_waiting)
        return handle

    def close(self):
        """Cancels all timers and closes the loop."""
        was_closed = self.is_closed()
        super().close()
        if not was_closed:
            self._waiting.clear()
            self._leave()

    def _start(self, handle):
        handle._scheduled = self._timers.start(timers.nanoseconds(handle.when()), self._expired, handle)

    def _start_waiting(self):
        waiting, self._waiting = self._waiting, []
        for handle in waiting:
            if handle.cancelled():
                handle._scheduled = False
            else:
                self._start(handle)

    def _expired(self, handle):
        handle._scheduled = False
        self._ready.append(handle)

    def _timer_handle_cancelled(self, handle):
        slot = handle._scheduled
        if not isinstance(slot, timers.Slot):
            return
        handle._scheduled = False
        if slot.timers.thread == threading.get_ident():
            slot.timers.cancel(slot)
        else:
            # It fires, and does nothing.
            slot.function = timers.abandoned

    def _process_events(self, event_list):
        own = self._timers
        others = [event for event in event_list if own is None or event[0].fd != own.descriptor]
        super()._process_events(others)
        if len(others) < len(event_list):
            own.turn()

    def _move_here(self):
        """Brings the timers to this thread."""
        own = timers.here()
        if self._timers is not own:
            self._leave(keeping=True)
            self._timers = own
            own.users += 1
            self._selector.register(own.descriptor, selectors.EVENT_READ)
        self._start_waiting()

    def _leave(self, keeping=False):
        """Takes all timers back from the thread that the loop ran on last; keeps their handles for a later start."""
        own, self._timers = self._timers, None
        if own is None:
            return
        if keeping:
            self._selector.unregister(own.descriptor)
        is_here = own.thread == threading.get_ident()
        # The loop's own function: others are timers of other loops and of sleepers.
        for slot in own.pending():
            if slot.function != self._expired:
                continue
            handle = slot.argument
            if keeping:
                self._waiting.append(handle)
            handle._scheduled = keeping
            if is_here:
                own.cancel(slot)
            else:
                slot.function = timers.abandoned
        own.users -= 1
        if is_here:
            timers.forget()


def new_event_loop():
    """Returns a new loop."""
    return EventLoop()


class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Has `asyncio.run` and `asyncio.new_event_loop` make loops with exact timers."""

    _loop_factory = EventLoop


def run(main, *, debug=None):
    """Runs a coroutine in a new loop with exact timers, as `asyncio.run`; returns its result."""
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=EventLoop) as runner:
            return runner.run(main)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(EventLoopPolicy())
    try:
        return asyncio.run(main, debug=debug)
    finally:
        asyncio.set_event_loop_policy(before)
