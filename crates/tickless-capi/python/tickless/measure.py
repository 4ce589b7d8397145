"""Prints how late sleeps are, and what arming and cancelling costs, on asyncio's loop and on this one."""

import asyncio
import time

from .loop import EventLoop
from .sleeping import sleep

DELAY = 50e-6
SLEEPS = 1000
PENDING = 10_000
TIMERS = 20_000


async def lateness(one):
    """Returns how much later than asked sleeps ended, in microseconds, sorted."""
    late = []
    for _ in range(SLEEPS):
        start = time.perf_counter()
        await one(DELAY)
        late.append((time.perf_counter() - start - DELAY) * 1e6)
    return sorted(late)


async def cost():
    """Returns the nanoseconds of arming and cancelling a timer among others that are pending."""
    loop = asyncio.get_running_loop()
    others = [loop.call_later(1000 + number, print) for number in range(PENDING)]
    start = time.perf_counter_ns()
    for _ in range(TIMERS):
        loop.call_later(500, print).cancel()
    passed = time.perf_counter_ns() - start
    for other in others:
        other.cancel()
    return passed // TIMERS


def run(factory, coroutine):
    loop = factory()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def main():
    print(f"late, of {SLEEPS} sleeps of {DELAY * 1e6:.0f} µs in µs, less being better     p50      p99")
    for name, factory, one in (
        ("asyncio.sleep on asyncio's loop", asyncio.SelectorEventLoop, asyncio.sleep),
        ("tickless.sleep on asyncio's loop", asyncio.SelectorEventLoop, sleep),
        ("asyncio.sleep on tickless's loop", EventLoop, asyncio.sleep),
    ):
        late = run(factory, lateness(one))
        print(f"{name:<60}{late[SLEEPS // 2]:9.0f}{late[SLEEPS * 99 // 100]:9.0f}")
    print(f"arm and cancel, {PENDING} pending, in ns, less being better")
    for name, factory in (("asyncio's loop", asyncio.SelectorEventLoop), ("tickless's loop", EventLoop)):
        print(f"{name:<60}{run(factory, cost()):9}")


if __name__ == "__main__":
    main()
