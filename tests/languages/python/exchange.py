"""Python's part of the exchange: `exchange.py write DIRECTORY`, `exchange.py read DIRECTORY`."""

import sys

import test_exchange

if __name__ == "__main__":
    {"write": test_exchange.write, "read": test_exchange.read}[sys.argv[1]](sys.argv[2])
