"""`python -m vrsgmcmc` is the command `vrsgmcmc`."""

import sys

from vrsgmcmc.cli import main

if __name__ == "__main__":
    sys.exit(main())
