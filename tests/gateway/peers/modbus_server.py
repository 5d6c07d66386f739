#!/usr/bin/env python3
"""Serves register dumps with pymodbus, a foreign implementation.

    modbus_server.py LINK UNIT=DUMP.json [UNIT=DUMP.json ...]

LINK is one of
    tcp:PORT                              Modbus TCP
    rtu_over_tcp:PORT                     RTU frames on a TCP connection
    tls:PORT:CERT.pem:KEY.pem:CA.pem      Modbus/TCP Security: MBAP in TLS, and a certificate of the CA's is asked for
    rtu:TTY                               RTU, 19 200 8N1 (a pty knows no parity)
    ascii:TTY                             ASCII

A dump is {"holding": {"0": [1, 2]}, "input": {...}, "coil": {...}, "discrete": {...}}: what is missing cannot be read.
Prints "pymodbus VERSION (LINK) listening" once it does.
"""
import asyncio
import json
import ssl
import sys

import pymodbus
from pymodbus import FramerType
from pymodbus.server import ModbusSerialServer, ModbusTcpServer, ModbusTlsServer
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


def serve(link, devices):
    kind, _, rest = link.partition(":")
    if kind == "tcp":
        return ModbusTcpServer(devices, address=("127.0.0.1", int(rest)))
    if kind == "rtu_over_tcp":
        return ModbusTcpServer(devices, framer=FramerType.RTU, address=("127.0.0.1", int(rest)))
    if kind == "tls":
        port, cert, key, ca = rest.split(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
        # Its own TLS framer leaves the MBAP header out, which the standard keeps.
        return ModbusTlsServer(devices, framer=FramerType.SOCKET, address=("127.0.0.1", int(port)), sslctx=context)
    framer = {"rtu": FramerType.RTU, "ascii": FramerType.ASCII}[kind]
    return ModbusSerialServer(devices, framer=framer, port=rest, baudrate=19200)


async def main():
    devices = []
    for word in sys.argv[2:]:
        unit, path = word.split("=", 1)
        devices.append(device(int(unit), path))
    server = serve(sys.argv[1], devices)
    await server.serve_forever(background=True)
    print(f"pymodbus {pymodbus.__version__} ({sys.argv[1].split(':')[0]}) listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
