"""`python -m vrsgmcmc` is the command `vrsgmcmc`."""

import sys

from vrsgmcmc.cli import console

if __name__ == "__main__":
    sys.exit(console())
