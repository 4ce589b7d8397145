"""A sleep for the loops of others: the descriptor of the thread's timers is read by the running loop."""

import asyncio
import weakref

from . import timers
from .loop import EventLoop

#: Loops that read the descriptor of their thread's timers, with those.
_attached = weakref.WeakKeyDictionary()


def _wake(future):
    if not future.done():
        future.set_result(None)


async def sleep(delay, result=None):
    """Waits for `delay` seconds and returns `result`: as `asyncio.sleep`, to the microsecond in place of the millisecond.

    In an `EventLoop` of this package it is `asyncio.sleep`. Any other loop needs `add_reader`. Cancelling the task
    cancels the timer. Raises ValueError if the delay is not a number.
    """
    loop = asyncio.get_running_loop()
    if delay <= 0 or isinstance(loop, EventLoop):
        return await asyncio.sleep(delay, result)
    own = timers.here()
    if _attached.get(loop) is not own:
        loop.add_reader(own.descriptor, own.turn)
        if loop not in _attached:
            own.users += 1
        _attached[loop] = own
    future = loop.create_future()
    slot = own.start(timers.now() + timers.nanoseconds(delay), _wake, future)
    try:
        await future
    finally:
        # A slot that fired may belong to another one by now.
        if slot.argument is future:
            own.cancel(slot)
    return result
