"""Makes of a store's file one of a format that no Larder knows yet, by a Larder that is not there yet: `later.py larder-data/larder.redb`."""

import sys
import zlib

FORMAT_AT = 8
FORMAT = 99
HEADER_BYTES = 152
WRITER_AT = 1024
WRITER = b"9.9.0"
NOTE_BYTES = 60


def summed(content):
    return content + (~zlib.crc32(content) & 0xFFFFFFFF).to_bytes(4, "little")


with open(sys.argv[1], "r+b") as file:
    header = bytearray(file.read(HEADER_BYTES))
    header[FORMAT_AT] = FORMAT
    file.seek(0)
    file.write(summed(header))
    file.seek(WRITER_AT)
    file.write(summed(bytes([len(WRITER)]) + WRITER.ljust(NOTE_BYTES - 1, b"\0")))
