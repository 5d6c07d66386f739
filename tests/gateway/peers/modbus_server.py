#!/usr/bin/env python3
"""Serves register dumps over Modbus TCP with pymodbus, a foreign implementation.

    modbus_server.py PORT UNIT=DUMP.json [UNIT=DUMP.json ...]

A dump is {"holding": {"0": [1, 2]}, "input": {...}, "coil": {...}, "discrete": {...}}: what is missing cannot be read.
Prints "pymodbus VERSION listening" once it does.
"""
import asyncio
import json
import sys

import pymodbus
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice


def block(table, bits):
    """SimData of one table: one entry a run."""
    runs = []
    for key, values in sorted(table.items(), key=lambda kv: int(kv[0], 0)):
        values = values if isinstance(values, list) else [values]
        values = [bool(v) for v in values] if bits else [int(v) for v in values]
        kind = DataType.BITS if bits else DataType.REGISTERS
        runs.append(SimData(int(key, 0), values=values, datatype=kind))
    # A table with nothing in it still has to exist for the server.
    return runs or [SimData(65535, values=[False] if bits else [0], datatype=DataType.BITS if bits else DataType.REGISTERS)]


def device(unit, path):
    with open(path, encoding="utf-8") as f:
        dump = json.load(f)
    table = lambda name, bits: block(dump.get(name, {}), bits)
    return SimDevice(unit, (table("coil", True), table("discrete", True), table("holding", False), table("input", False)))


async def main():
    port = int(sys.argv[1])
    devices = []
    for word in sys.argv[2:]:
        unit, path = word.split("=", 1)
        devices.append(device(int(unit), path))
    server = ModbusTcpServer(devices, address=("127.0.0.1", port))
    await server.serve_forever(background=True)
    print(f"pymodbus {pymodbus.__version__} listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
