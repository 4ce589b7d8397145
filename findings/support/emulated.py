"""Drives the devices of an emulated board through the emulator's debugger port.

The processor of the board executes a counted loop and nothing else: one instruction takes a nanosecond of the board's
time (`-icount shift=0`). Time goes on a little between two commands as well, so that figures are compared with wide
margins.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time


class Board:
    """An emulated board that stands still except in `wait`."""

    # Of ARM: the numbers of the debugger for the first register and the program counter, and the length of a breakpoint.
    COUNT, PLACE, LENGTH = 0x0, 0xF, 2
    ORDER = "little"

    def __init__(self, machine, ram, thumb=True, options=()):
        self.ram = ram
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "debugger")
        self.process = subprocess.Popen(
            [os.environ["QEMU"], "-M", machine, "-accel", "tcg", "-icount", "shift=0", "-display", "none"]
            + ["-monitor", "none", "-serial", "none", "-nodefaults", "-S"]
            + ["-chardev", f"socket,path={path},server=on,wait=off,id=debugger", "-gdb", "chardev:debugger"]
            + [option.replace("EMPTY", self._empty()) for option in options],
            stderr=subprocess.DEVNULL,
        )
        self.stream = self._connected(path)
        self.received = b""
        self.command("?")
        self.command("qSupported:multiprocess-")
        self.command("qXfer:features:read:target.xml:0,ffb")
        loop, self.end = self.loop(ram, thumb)
        self._expect(f"M{ram:x},{len(loop) // 2:x}:{loop}")
        self._expect("Qqemu.PhyMemMode:1")
        self.thumb = thumb

    @staticmethod
    def loop(ram, thumb):
        """Subtracts 1 from the first register, again unless it is 0, then for ever the last instruction."""
        return ("0138fdd1fee7", ram + 4) if thumb else ("010050e2fdffff1afeffffea", ram + 8)

    def _empty(self):
        """Returns the path of firmware of 64 KiB of zeros, for boards that do not begin without a firmware."""
        path = os.path.join(self.folder.name, "firmware")
        with open(path, "wb") as firmware:
            firmware.write(bytes(1 << 16))
        return path

    @staticmethod
    def _connected(path):
        for _ in range(600):
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.connect(path)
                return stream
            except OSError:
                time.sleep(0.05)
        sys.exit("the emulator does not answer")

    def command(self, text):
        data = text.encode()
        self.stream.sendall(b"$" + data + b"#%02x" % (sum(data) & 255))
        return self._answer()

    def _answer(self):
        while True:
            start = self.received.find(b"$")
            stop = self.received.find(b"#", start)
            if 0 <= start < stop <= len(self.received) - 3:
                answer = self.received[start + 1 : stop].decode()
                self.received = self.received[stop + 3 :]
                self.stream.sendall(b"+")
                return answer
            more = self.stream.recv(4096)
            if not more:
                sys.exit("the emulator has ended")
            self.received += more

    def _expect(self, text):
        if self.command(text) != "OK":
            sys.exit(f"the emulator refuses {text}")

    def read(self, address, size=4):
        return int.from_bytes(bytes.fromhex(self.command(f"m{address:x},{size:x}")), self.ORDER)

    def write(self, address, value, size=4):
        self._expect(f"M{address:x},{size:x}:" + value.to_bytes(size, self.ORDER).hex())

    def register(self, number):
        return int.from_bytes(bytes.fromhex(self.command(f"p{number:x}")), self.ORDER)

    def set_register(self, number, value):
        self._expect(f"P{number:x}=" + value.to_bytes(4, self.ORDER).hex())

    def wait(self, micros):
        """Lets the board's time go on by at least so many microseconds."""
        self.set_register(self.COUNT, micros * 500)
        self.begin()
        self._expect(f"Z0,{self.end:x},{self.LENGTH}")
        self.command("c")
        self._expect(f"z0,{self.end:x},{self.LENGTH}")

    def begin(self):
        """Sends the processor to the begin of the loop."""
        self.set_register(self.PLACE, self.ram)
        if self.thumb:
            self.set_register(0x19, 1 << 24)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class RiscvBoard(Board):
    """The same with a processor of 32-bit RISC-V."""

    COUNT, PLACE, LENGTH = 0xA, 0x20, 4

    def __init__(self, machine, ram, options=()):
        super().__init__(machine, ram, False, options)

    @staticmethod
    def loop(ram, thumb):
        return "1305f5ffe31e05fe6f000000", ram + 8


class X86Board(Board):
    """The same with a processor of 32-bit x86, in real mode."""

    COUNT, PLACE, LENGTH = 0x1, 0x8, 1
    SEGMENT = 0xA

    def __init__(self, machine, ram, options=()):
        super().__init__(machine, ram, False, ["-bios", "EMPTY", *options])

    @staticmethod
    def loop(ram, thumb):
        return "664975fcebfe", ram + 4

    def begin(self):
        self.set_register(self.SEGMENT, 0)
        super().begin()

    def _monitor(self, text):
        """Returns what the emulator's monitor prints."""
        printed = ""
        answer = self.command("qRcmd," + text.encode().hex())
        while answer.startswith("O") and answer != "OK":
            printed += bytes.fromhex(answer[1:]).decode()
            answer = self._answer()
        return printed

    def write_port(self, port, value):
        self._monitor(f"o /b {port} {value}")

    def read_port(self, port):
        return int(self._monitor(f"i /b {port}").split("=")[1], 16)


class M68kBoard(Board):
    """The same with a processor of m68k."""

    COUNT, PLACE, LENGTH = 0x0, 0x11, 2
    ORDER = "big"
    INTERRUPTS, STATUS = 0x1, 0x10

    def __init__(self, machine, ram):
        super().__init__(machine, ram, False, ["-bios", "EMPTY"])

    @staticmethod
    def loop(ram, thumb):
        return "538066fc60fe", ram + 4

    def take_interrupts(self, vector):
        """Lets the processor take one interrupt, which it counts."""
        handler, stack = self.ram + 0x20, self.ram + 0x1000
        # Adds 1 to the second register, masks interrupts in the state to return to, and returns.
        self._expect(f"M{handler:x},8:5281005707004e73")
        self.write(vector, handler)
        self.set_register(0xF, stack)
        self.set_register(self.INTERRUPTS, 0)
        self.set_register(self.STATUS, 0x2000)

    def interrupts(self):
        return self.register(self.INTERRUPTS)


class AllRegistersBoard(Board):
    """The same with a debugger that sets all registers or none."""

    def set_register(self, number, value):
        registers = bytearray.fromhex(self.command("g"))
        registers[4 * number : 4 * number + 4] = value.to_bytes(4, self.ORDER)
        self._expect("G" + registers.hex())


class SparcBoard(AllRegistersBoard):
    """The same with a processor of 32-bit SPARC."""

    COUNT, PLACE, LENGTH = 0x1, 0x44, 4
    ORDER = "big"

    def __init__(self, machine, ram, options=()):
        super().__init__(machine, ram, False, ["-bios", "EMPTY", *options])

    @staticmethod
    def loop(ram, thumb):
        return "82a0600112bfffff010000001080000001000000", ram + 12

    def begin(self):
        super().begin()
        # The address of the next instruction but one.
        self.set_register(self.PLACE + 1, self.ram + 4)


class Riscv64Board(RiscvBoard):
    """The same with a processor of 64-bit RISC-V."""

    def __init__(self, machine, ram):
        super().__init__(machine, ram, ["-bios", "none"])

    def set_register(self, number, value):
        self._expect(f"P{number:x}=" + value.to_bytes(8, self.ORDER).hex())


class MicroBlazeBoard(AllRegistersBoard):
    """The same with a processor of MicroBlaze."""

    COUNT, PLACE, LENGTH = 0x3, 0x20, 4

    def __init__(self, machine, ram):
        super().__init__(machine, ram, False)

    @staticmethod
    def loop(ram, thumb):
        return "ffff6330fcff23bc000000b8", ram + 8


class RxBoard(AllRegistersBoard):
    """The same with a processor of RX."""

    COUNT, PLACE, LENGTH = 0x1, 0x13, 1

    def __init__(self, machine, ram):
        super().__init__(machine, ram, False, ["-bios", "EMPTY"])

    @staticmethod
    def loop(ram, thumb):
        return "601121fe2e00", ram + 4


class Arm64Board(Board):
    """The same with a processor of 64-bit ARM."""

    COUNT, PLACE, LENGTH = 0x0, 0x20, 4

    def __init__(self, machine, ram, options=()):
        super().__init__(machine, ram, False, options)

    @staticmethod
    def loop(ram, thumb):
        return "000400f1e1ffff5400000014", ram + 8

    def set_register(self, number, value):
        self._expect(f"P{number:x}=" + value.to_bytes(8, self.ORDER).hex())


class AvrBoard(Board):
    """The same with a processor of AVR, which never executes anything. Its data begins at `DATA`."""

    DATA = 0x800000

    def __init__(self, machine):
        super().__init__(machine, 0, False)

    def read_data(self, address):
        return self.read(self.DATA + address, 1)

    def write_data(self, address, value):
        self.write(self.DATA + address, value, 1)


class LoongArchBoard(Board):
    """The same with a processor of 64-bit LoongArch, which executes other instructions as well."""

    COUNT, PLACE, LENGTH = 0x4, 0x21, 4

    def __init__(self, machine, ram):
        super().__init__(machine, ram, False, ["-bios", "EMPTY"])

    @staticmethod
    def loop(ram, thumb):
        return "84fcff0280fcff5f00000050", ram + 8

    def set_register(self, number, value):
        self._expect(f"P{number:x}=" + value.to_bytes(8, self.ORDER).hex())

    def execute(self, instructions, register, value=0):
        """Executes the instructions with a value in the register, and returns what is in it behind them."""
        place = self.ram + 0x100
        for index, instruction in enumerate(instructions):
            self.write(place + 4 * index, instruction)
        self.set_register(register, value)
        self.set_register(self.PLACE, place)
        end = place + 4 * len(instructions)
        # The processor comes to the breakpoint before it executes what is there.
        self._expect(f"Z0,{end:x},{self.LENGTH}")
        self.command("c")
        self._expect(f"z0,{end:x},{self.LENGTH}")
        return self.register(register)
