# Gives the columns of a manual page's tables widths, where the table is wider than a terminal of 80 columns: without them
# mandoc and groff break no cell. It reads the roff that go-md2man writes.

# put ends the cell at hand.
function put() {
  cell[rows, ++column] = text
  if (column > columns) columns = column
  text = ""
}

# width is how many columns a text takes.
function width(s) {
  gsub(/\\f[A-Z]/, "", s)
  gsub(/\\\[[^\]]*\]|\\\(..|\\[^e]|\\e/, "x", s)
  return length(s)
}

# table prints the table at hand.
function table(   r, c, i, n, words, room, open, share, found, wide) {
  room = 72 - 3 * columns
  for (c = 1; c <= columns; c++) {
    natural[c] = longest[c] = fixed[c] = 0
    for (r = 1; r <= rows; r++) {
      if ((i = width(cell[r, c])) > natural[c]) natural[c] = i
      n = split(cell[r, c], words, " ")
      for (i = 1; i <= n; i++) if (width(words[i]) > longest[c]) longest[c] = width(words[i])
    }
    wide += natural[c]
  }
  wide = wide > room
  # Narrow columns keep their width, and the others share the rest.
  for (open = columns; wide && open > 0; ) {
    found = 0
    share = int(room / open)
    for (c = 1; c <= columns; c++)
      if (!fixed[c] && (natural[c] <= share || longest[c] > share)) {
        fixed[c] = natural[c] <= share ? natural[c] : longest[c]
        room -= fixed[c]; open--; found = 1
        break
      }
    if (!found) {
      for (c = 1; c <= columns; c++) if (!fixed[c]) fixed[c] = share
      open = 0
    }
  }
  for (c = 1; c <= columns; c++) printf "%s%s", (wide ? "lw(" (fixed[c] > 0 ? fixed[c] : 1) "n)" : "l"), (c < columns ? " " : ".\n")
  for (r = 1; r <= rows; r++) {
    for (c = 1; c <= columns; c++) {
      if (wide && width(cell[r, c]) > fixed[c]) printf "T{\n%s%s\nT}", (cell[r, c] ~ /^[.']/ ? "\\&" : ""), cell[r, c]
      else printf "%s", cell[r, c]
      printf "%s", (c < columns ? "\t" : "\n")
    }
  }
}

/^\.TS$/ { print; state = "options"; rows = columns = 0; text = ""; split("", cell); next }
state == "" { print; next }
/^\.TE$/ { table(); print; state = ""; next }
state == "options" { print; state = "format"; next }
state == "format" { if (/\.$/) state = "rows"; next }
{
  line = $0
  if (!block) { rows++; column = 0 }
  for (;;) {
    if (block) {
      if (line !~ /^T}/) { text = text (text == "" ? "" : " ") line; next }
      block = 0
      line = substr(line, 3)
    } else if (line ~ /^T{/) {
      block = 1
      next
    } else {
      at = index(line, "\t")
      text = at ? substr(line, 1, at - 1) : line
      line = at ? substr(line, at) : ""
    }
    put()
    if (line == "") next
    line = substr(line, 2) # behind the tab
  }
}
