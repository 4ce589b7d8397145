"""The timers of a thread, in the shared library.

A thread has one loop of the library, which all event loops of Python share that run there. A timer lies in a structure
whose address must not change while it is pending; the thread's `Timers` keeps all of them, and uses those that are idle
again.

Ground rules: the library lets only the thread of a timer touch it. `Timers.start`, `cancel`, `turn` and `close` are
called by that thread; `abandon` by any.
"""

import ctypes
import math
import os
import pathlib
import threading

#: Words of `struct tickless_timer`, and the version of the interface that they are of.
_TIMER_WORDS = 32
_ABI_VERSION = 0
_MONOTONIC = 1
#: Later than any process lives, in nanoseconds, and within what the clock can show.
_FAR = 1 << 62

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Timer = ctypes.c_uint64 * _TIMER_WORDS


def _load():
    beside = pathlib.Path(__file__).with_name("libtickless.so")
    library = ctypes.CDLL(os.environ.get("TICKLESS_LIBRARY") or str(beside))
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    for name, arguments in {
        "tickless_clock_now": (ctypes.c_uint32, ctypes.POINTER(number)),
        "tickless_loop_new": (ctypes.POINTER(pointer),),
        "tickless_loop_free": (pointer,),
        "tickless_loop_fd": (pointer,),
        "tickless_loop_turn": (pointer,),
        "tickless_timer_init": (pointer, _CALLBACK, pointer),
        "tickless_timer_start_at": (pointer, number),
        "tickless_timer_cancel": (pointer,),
        "tickless_timer_destroy": (pointer,),
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    version = library.tickless_abi_version
    version.argtypes, version.restype = (), ctypes.c_uint32
    if version() != _ABI_VERSION:
        raise ImportError(f"the library has version {version()} of the interface, not {_ABI_VERSION}")
    return library


_library = _load()


def _checked(answer):
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def abi_version():
    """Returns the version of the C interface that the library has."""
    return _library.tickless_abi_version()


def now():
    """Returns the time of the monotonic clock, in nanoseconds."""
    shown = ctypes.c_uint64()
    _checked(_library.tickless_clock_now(_MONOTONIC, ctypes.byref(shown)))
    return shown.value


def nanoseconds(seconds):
    """Returns a time of the monotonic clock in nanoseconds, rounded up: no timer fires early.

    Raises ValueError if it is not a number.
    """
    if math.isnan(seconds):
        raise ValueError("a time is not a number")
    if seconds <= 0:
        return 0
    return _FAR if seconds >= _FAR / 1e9 else math.ceil(seconds * 1e9)


class Slot:
    """A timer of the library, and the call that its expiry makes.

    `timers` is None if the slot's thread is not to fire it any more.
    """

    __slots__ = ("address", "argument", "function", "structure", "timers")

    def __init__(self, timers):
        self.structure = _Timer()
        self.address = ctypes.addressof(self.structure)
        self.timers = timers
        self.function = self.argument = None


class Timers:
    """The timers of one thread."""

    def __init__(self):
        self._loop = ctypes.c_void_p()
        _checked(_library.tickless_loop_new(ctypes.byref(self._loop)))
        self.descriptor = _checked(_library.tickless_loop_fd(self._loop))
        self.thread = threading.get_ident()
        self._slots = []
        self._idle = []
        #: Event loops of Python that run here, or ran here last.
        self.users = 0
        self._callback = _CALLBACK(self._expired)

    def start(self, at, function, argument):
        """Has `function(argument)` called by a turn at the time `at` or later, in nanoseconds; returns the slot."""
        slot = self._idle.pop() if self._idle else self._new_slot()
        slot.function, slot.argument = function, argument
        try:
            _checked(_library.tickless_timer_start_at(slot.address, at))
        except OSError:
            self._idle.append(slot)
            raise
        return slot

    def cancel(self, slot):
        """Takes a slot back that `start` returned and that did not fire."""
        _checked(_library.tickless_timer_cancel(slot.address))
        slot.function = slot.argument = None
        self._idle.append(slot)

    def turn(self):
        """Calls the functions of what is due."""
        _checked(_library.tickless_loop_turn(self._loop))

    def pending(self):
        """Returns the slots that wait to fire."""
        return [slot for slot in self._slots if slot.function is not None]

    def close(self):
        """Cancels all timers and frees the loop of the library."""
        for slot in self._slots:
            _library.tickless_timer_destroy(slot.address)
            slot.function = slot.argument = None
        self._slots, self._idle = [], []
        loop, self._loop = self._loop, None
        if loop is not None:
            _checked(_library.tickless_loop_free(loop))
        # It refers to this object.
        self._callback = None

    def _new_slot(self):
        slot = Slot(self)
        _checked(_library.tickless_timer_init(slot.address, self._callback, len(self._slots)))
        self._slots.append(slot)
        return slot

    def _expired(self, _address, index):
        # C passes the index 0 as a null pointer, which is None here.
        slot = self._slots[index or 0]
        function, argument = slot.function, slot.argument
        slot.function = slot.argument = None
        self._idle.append(slot)
        function(argument)


def abandoned(_argument):
    """The function of a slot that is not to do anything any more, and whose thread cannot be reached."""


class _Guard:
    """Frees the timers of a thread when it ends: it is dropped with what the thread alone has."""

    def __init__(self, timers):
        self._timers = timers

    def __del__(self):
        if self._timers.thread == threading.get_ident():
            self._timers.close()


class _Here(threading.local):
    timers = None
    guard = None


_here = _Here()


def here(make=True):
    """Returns the timers of this thread; makes them if it has none, unless told not to."""
    timers = _here.timers
    if timers is None and make:
        timers = _here.timers = Timers()
        _here.guard = _Guard(timers)
    return timers


def forget():
    """Frees the timers of this thread if no event loop uses them."""
    timers = _here.timers
    if timers is not None and timers.users == 0:
        _here.timers = _here.guard = None
