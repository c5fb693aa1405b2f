"""Studies, run from nothing: `python -m experiments simulation`, `... case_study`, `... next_clicks` and others.

`study` has the steps that all share: run tasks, keep their results, and write a page from the results. `tasks`
runs what takes long, and `document` writes the page. Each study has a folder of its own: `plan` says what is run,
`measures` has the tasks, `results` sorts what they returned, `tables`, `figures` and `words` show it, and page.md
says where on the page each of them stands. expected.json has the paper's own numbers. `differences` writes who
is ahead, and by how much, on the pages of the paper's two studies.
"""
