"""What a job executes: `python -m isosweep.training RUN_DIRECTORY/attempts/3.json`."""

import sys

from isosweep.training.attempt import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
