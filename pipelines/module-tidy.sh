#!/bin/sh
# A processing module in shell: what tidy (Debian's package tidy) complains of in each
# HTML page, and how often it did over the whole crawl.
#
# In crawl.toml, with the name of this file:
#
#   [extract]
#   modules = ["tidy=text/html,application/xhtml+xml:/path/to/module-tidy.sh"]
#   module_state = ["tidy"]
#
# Each round's complaints then stand in rounds/rN/modules.arrows.zst, and the totals:
#
#   mextract state crawl/modules/tidy | tar xO totals
#
# By hand, over any WARC files:
#
#   mextract pages.warc.gz --modules found --module tidy=text/html:./module-tidy.sh > /dev/null && mcat found
case ${MERCATOR_EVENT:-document} in
document) # a page on standard input; a finding a line: warning or error, and what about
  tidy -quiet -errors -utf8 2>&1 |
    sed -n -e 's/^line [0-9]* column [0-9]* - Warning: /warning	/p' -e 's/^line [0-9]* column [0-9]* - Error: /error	/p'
  ;;
commit) # all findings of the round: URL checksum, key, value
  cd "$MERCATOR_MODULE_DIR" || exit
  touch totals
  LC_ALL=C awk -F '\t' -v OFS='\t' '
    FILENAME == "totals" { n[$1 OFS $2] = $3; next }
    { n[$2 OFS $3]++ }
    END { for (c in n) print c, n[c] }' totals - | LC_ALL=C sort > new && mv new totals
  ;;
esac
