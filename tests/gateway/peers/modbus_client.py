#!/usr/bin/env python3
"""Reads with pymodbus' own client, to see that a peer of the tests answers at all.

    modbus_client.py LINK UNIT FUNCTION ADDRESS COUNT

LINK as for modbus_server.py; for tls: tls:PORT:CERT.pem:KEY.pem:CA.pem with the client's. Prints the values as JSON.
"""
import json
import socket
import ssl
import struct
import sys

from pymodbus import FramerType
from pymodbus.client import ModbusSerialClient, ModbusTcpClient

link, unit, function, address, count = sys.argv[1], *map(int, sys.argv[2:6])
kind, _, rest = link.partition(":")
if kind in ("tcp", "rtu_over_tcp"):
    framer = FramerType.SOCKET if kind == "tcp" else FramerType.RTU
    client = ModbusTcpClient("127.0.0.1", port=int(rest), framer=framer, timeout=2)
elif kind == "tls":
    port, cert, key, ca = rest.split(":")
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    # pymodbus' own client leaves the MBAP header out of TLS: by hand then.
    with socket.create_connection(("127.0.0.1", int(port)), 2) as tcp:
        with context.wrap_socket(tcp, server_hostname="localhost") as tls:
            tls.sendall(struct.pack(">HHHBBHH", 7, 0, 6, unit, function, address, count))
            tid, protocol, length, who, what, size = struct.unpack(">HHHBBB", tls.recv(9))
            assert (tid, protocol, length, who, what) == (7, 0, 3 + size, unit, function)
            print(json.dumps(list(struct.unpack(f">{count}H", tls.recv(size)))))
    sys.exit()
else:
    framer = FramerType.RTU if kind == "rtu" else FramerType.ASCII
    client = ModbusSerialClient(rest, framer=framer, baudrate=19200, timeout=2)
assert client.connect(), "no connection"
read = {3: client.read_holding_registers, 4: client.read_input_registers}[function]
reply = read(address, count=count, device_id=unit)
assert not reply.isError(), reply
print(json.dumps(reply.registers))
