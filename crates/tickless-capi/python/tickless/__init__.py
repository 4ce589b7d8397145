"""Exact timers for asyncio, by the C interface of Tickless.

    import asyncio, tickless

    async def main():
        await tickless.sleep(50e-6)      # in any loop that has add_reader

    asyncio.run(main())
    tickless.run(main())                 # all timers of asyncio are exact in this one
"""

from .loop import EventLoop, EventLoopPolicy, new_event_loop, run
from .sleeping import sleep
from .timers import abi_version, now

__all__ = ["EventLoop", "EventLoopPolicy", "abi_version", "new_event_loop", "now", "run", "sleep"]
