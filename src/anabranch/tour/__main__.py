"""Run the tour: `python -m anabranch.tour`."""

from anabranch.tour.stations import main

if __name__ == "__main__":
    main()
