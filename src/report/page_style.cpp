#include "report/page.hpp"

namespace mrb {

// Okabe and Ito's palette, which people with any colour vision tell apart, with a grey as the eighth.
std::string page_style() {
  return R"css(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --card: #f6f8fa;
  --good: #1a7f37; --bad: #b42318; --open: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa6b2; --line: #3a424c; --paper: #0f1419;
  --card: #171d24; --good: #56d364; --bad: #ff8a80; --open: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
code, pre { font: .85em/1.5 ui-monospace, Menlo, Consolas, monospace; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; } td.n { overflow-wrap: normal; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.open { color: var(--open); font-weight: 600; }
.note { border-left: 4px solid var(--open); background: var(--card); padding: .4rem .75rem; margin: .5rem 0; }
figure { margin: .5rem 0 1rem; } .barlabel { margin: .6rem 0 .15rem; font-size: .9rem; }
.bar { display: flex; height: 1.6rem; background: var(--card); border: 1px solid var(--line); }
.bar span { display: block; min-width: 0; }
.xticks { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft); }
.axis { text-align: center; font-size: .85rem; color: var(--soft); } .ytitle { text-align: left; }
.plot { display: grid; grid-template-columns: auto 1fr; column-gap: .4rem; }
.plot svg { width: 100%; height: 16rem; display: block; border: 1px solid var(--line); overflow: visible; }
.yticks { display: flex; flex-direction: column; justify-content: space-between; text-align: right; font-size: .8rem;
  color: var(--soft); line-height: 1; margin: -.4rem 0; } .plot .xticks { grid-column: 2; }
.grid { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
.dots { fill: none; stroke-width: 7px; stroke-linecap: round; vector-effect: non-scaling-stroke; opacity: .8; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .4rem 0; font-size: .85rem; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; vertical-align: -.05rem; }
.c0 { background: #0072b2; } .c1 { background: #e69f00; } .c2 { background: #009e73; } .c3 { background: #d55e00; }
.c4 { background: #56b4e9; } .c5 { background: #cc79a7; } .c6 { background: #b5a800; } .c7 { background: #8c959f; }
.s0 { stroke: #0072b2; } .s1 { stroke: #e69f00; } .s2 { stroke: #009e73; } .s3 { stroke: #d55e00; }
.s4 { stroke: #56b4e9; } .s5 { stroke: #cc79a7; } .s6 { stroke: #b5a800; } .s7 { stroke: #8c959f; }
@media (prefers-color-scheme: dark) { .c0 { background: #4aa3df; } .s0 { stroke: #4aa3df; } }
@media screen and (max-width: 44rem) {
  table, tbody, tr, td { display: block; width: 100%; } thead { display: none; }
  tr { border: 1px solid var(--line); border-radius: 6px; padding: .3rem .6rem; margin: .5rem 0; }
  td, td.n { border: 0; white-space: normal; text-align: left; padding: .1rem 0; }
  td::before { content: attr(data-label) ": "; color: var(--soft); } td[data-label=""]::before { content: ""; }
}
@media print { body { font-size: 10pt; max-width: none; padding: 0; } figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; } * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } table { font-size: 8pt; }
  th, td { padding: .2rem .3rem; } details { display: block; } }
)css";
}

}  // namespace mrb
