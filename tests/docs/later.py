"""Makes of a store's file one of a format that no Larder knows yet: `later.py larder-data/larder.redb`."""

import sys
import zlib

FORMAT_AT = 8
FORMAT = 99
HEADER_BYTES = 152

with open(sys.argv[1], "r+b") as file:
    header = bytearray(file.read(HEADER_BYTES))
    header[FORMAT_AT] = FORMAT
    file.seek(0)
    file.write(header + (~zlib.crc32(header) & 0xFFFFFFFF).to_bytes(4, "little"))
