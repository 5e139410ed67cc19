"""Reports of many runs as an HTML page or Markdown: data, statistics, tables, figures, and the page itself."""
