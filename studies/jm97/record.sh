#!/bin/sh
# This script records the programs of this study: sh studies/jm97/record.sh DIR. It writes inputs and recordings into
# DIR, and passes over programs that are not installed. BINHOP is the command of binhop, PROGRAMS the programs to record,
# LONG and SHORT the references of the programs of Figure 8 and of the other programs.
set -eu
dir=${1:?usage: sh record.sh DIR}
binhop=${BINHOP:-binhop}
programs=${PROGRAMS:-gcc sqlite3 perl gzip lua gnugo sort}
long=${LONG:-1G}
short=${SHORT:-200M}
PATH=$PATH:/usr/games
mkdir -p "$dir"
cd "$dir"

# The inputs are drawn by a generator of this script, so every run makes the same inputs.
perl -e '
    my $state = 1;
    sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; int($state / 65536) % $_[0] }
    open my $text, ">", "words.txt";
    my @parts = qw(al ber con dor en fil gra hol in jun kel lor man nor or pel qua ras sel tor un ver wil xan yor zel);
    for (1 .. 400000) {
        print $text join("", map { $parts[draw(26)] } 1 .. 1 + draw(3)), $_ % 9 ? " " : "\n";
    }
    open my $c, ">", "large.c";
    print $c "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n";
    print $c "struct node { struct node *left, *right; long key; char name[16]; };\n";
    for my $n (0 .. 199) {
        my ($a, $b, $d) = (1 + draw(97), 2 + draw(13), draw(7));
        print $c "long f$n(struct node *p, long x) {\n  long sum = $a, i;\n";
        print $c "  for (i = 0; i < x % $b; i++) {\n    switch ((int)(x + i) & 7) {\n";
        for my $case (0 .. 5) { printf $c "    case %d: sum += x * %d ^ i; break;\n", $case, draw(1000) }
        print $c "    default: sum -= x >> $d;\n    }\n  }\n";
        print $c "  if (p && p->key < sum) return f", draw($n), "(p->left, sum - 1);\n" if $n;
        print $c "  if (p && strcmp(p->name, \"n$n\") == 0) printf(\"%ld\\n\", sum);\n  return sum;\n}\n";
    }
    print $c "int main(int argc, char **argv) { return (int)f199(calloc(1, sizeof(struct node)), argc); }\n";
    open my $sql, ">", "queries.sql";
    print $sql "create table item(id integer primary key, kind integer, name text, price integer);\n";
    print $sql "create index kinds on item(kind);\ncreate table sale(item integer, day integer, number integer);\n";
    print $sql "begin;\n";
    for (1 .. 20000) {
        printf $sql "insert into item values(%d, %d, \x27item%d\x27, %d);\n", $_, draw(100), draw(32768), draw(1000);
    }
    for (1 .. 40000) {
        printf $sql "insert into sale values(%d, %d, %d);\n", 1 + draw(20000), draw(365), draw(20);
    }
    print $sql "commit;\ncreate index days on sale(day);\n";
    for (1 .. 60) {
        my $k = draw(100);
        print $sql "select sum(price * number) from item, sale where item.id = sale.item and kind = $k;\n";
        print $sql "select day, count(*) from sale group by day order by 2 desc limit 5;\n";
        print $sql "update item set price = price + 1 where kind = $k;\n";
        print $sql "select name from item where name like \x27%", draw(1000), "%\x27 order by name limit 3;\n";
    }
    open my $go, ">", "moves.gtp";
    print $go "boardsize 19\nset_random_seed 1\nlevel 8\n", "genmove black\ngenmove white\n" x 2, "quit\n";
'
cat > script.pl <<'END'
# Counts words, then indexes them by their first letters, and prints the most frequent.
my (%count, %start);
for my $round (1 .. 2) {
    open my $in, "<", $ARGV[0] or die;
    while (<$in>) {
        for my $word (split) { $count{$word}++; push @{ $start{substr $word, 0, 2} }, $word if $word =~ /(.)\1/ }
    }
}
my @words = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for @words[0 .. 99];
print "$_ ", scalar @{ $start{$_} }, "\n" for sort keys %start;
END
cat > program.lua <<'END'
-- Makes and evaluates trees of expressions, as an interpreter for Lisp does, and sorts and joins strings.
local seed = 1
local function draw(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed // 65536 % n end
local function tree(depth)
  if depth == 0 or draw(9) == 0 then return draw(100) end
  return { ({ "+", "-", "*", "max" })[1 + draw(4)], tree(depth - 1), tree(depth - 1) }
end
local function value(node)
  if type(node) == "number" then return node end
  local a, b = value(node[2]), value(node[3])
  if node[1] == "+" then return a + b elseif node[1] == "-" then return a - b
  elseif node[1] == "*" then return (a * b) % 10007 else return a > b and a or b end
end
local function text(node)
  if type(node) == "number" then return tostring(node) end
  return "(" .. node[1] .. " " .. text(node[2]) .. " " .. text(node[3]) .. ")"
end
local all = {}
for i = 1, 400 do
  local made = tree(11)
  all[#all + 1] = text(made):sub(1, 60) .. value(made)
  if i % 20 == 0 then table.sort(all) end
end
print(#table.concat(all, "\n"))
END
cat words.txt words.txt > large.txt

record() {
    name=$1 limit=$2
    shift 2
    case " $programs " in *" $name "*) ;; *) return 0 ;; esac
    if ! command -v "$1" > /dev/null; then
        echo "$1 is not installed: no recording $name" >&2
        return 0
    fi
    "$binhop" record --limit "$limit" -o "$name.parquet" -- "$@" > "$name.out"
}

lua=lua
command -v lua > /dev/null || lua=lua5.4
record gcc "$long" gcc -O2 -c large.c -o large.o
record sqlite3 "$long" sqlite3 :memory: ".read queries.sql"
record perl "$short" perl script.pl words.txt
record gzip "$short" gzip -9 -c large.txt
record lua "$short" "$lua" program.lua
record gnugo "$short" gnugo --mode gtp --gtp-input moves.gtp
record sort "$short" sort large.txt
