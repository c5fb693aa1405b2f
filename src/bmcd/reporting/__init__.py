"""The HTML report for editors. Knows every room but the command line and the service.

* `report.py`: `bmcd.report`, from the arguments to the file.
* `results.py`, `example_users.py`: every number in it, worked out before anything is written.
* `sentences.py`: what it says in plain words.
* `sections/`: what stands on the page, one file for each section. To add a figure, draw it in `bmcd.plots` and show
  it here.
* `page.py`, `markup.py`, `svg.py`: sections to one page, text to HTML, figures to SVG. Around them are put
  `template.html`, `report.css` and `report.js`.
"""
