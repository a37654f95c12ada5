/** Style sheet of the reports: light and dark, readable on a phone. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f6f5f2; --card: #ffffff; --ink: #17160f; --soft: #5d5b54; --line: #dedcd5;
  --allowed: #2f6fb7; --denied: #c8372d; --shadow: #b07a00; --good: #1b7a43;
  --shade: rgb(0 0 0 / 22%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131312; --card: #1d1c1a; --ink: #f3f1ea; --soft: #aeaba1; --line: #3a3833;
    --allowed: #5b9be0; --denied: #ee6a5f; --shadow: #dba53a; --good: #55b97f;
    --shade: rgb(0 0 0 / 75%);
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 40px; }
h1 { font-size: 26px; line-height: 1.25; margin: 4px 0 8px; text-wrap: balance; }
h1, .tiles b { overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 16px 0 4px; }
p { margin: 0 0 8px; }
.kind { color: var(--soft); font-size: 13px; letter-spacing: .04em; text-transform: uppercase; }
.soft, .note { color: var(--soft); }
.note { font-size: 13px; }
.bad { color: var(--denied); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.alert { border: 1px solid var(--denied); border-left-width: 5px; border-radius: 8px; }
.alert { padding: 10px 14px; margin: 10px 0; background: var(--card); }
.alert b { color: var(--denied); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 20px; margin: 16px 0;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.tiles section { margin: 0; padding: 12px 16px; }
.tiles b { display: block; font-size: 22px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 13px; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 8px 28px; }
/* Wide content scrolls; a shadow at the edge shows that there is more. */
.scroll {
  overflow-x: auto;
  background:
    linear-gradient(to right, var(--card) 40%, transparent) left / 36px 100% no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) right / 36px 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 12px 100% no-repeat,
    linear-gradient(to left, var(--shade), transparent) right / 12px 100% no-repeat;
}
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { color: var(--soft); font-weight: 500; font-size: 13px; text-align: left; }
th { vertical-align: bottom; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px; }
.name { overflow-wrap: anywhere; unicode-bidi: isolate; }
td.name { min-width: 130px; }
.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
.bars { width: 18%; min-width: 80px; }
svg { display: block; width: 100%; overflow: visible; }
svg.chart { margin-left: 36px; width: calc(100% - 36px); }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg text { paint-order: stroke; stroke: var(--card); stroke-width: 3px; stroke-linejoin: round; }
svg .strong { fill: var(--ink); }
svg .bad { fill: var(--denied); }
svg .good { fill: var(--good); }
.grid { stroke: var(--line); stroke-width: 1; shape-rendering: crispEdges; }
.edge { stroke: var(--soft); stroke-width: 1; shape-rendering: crispEdges; }
.dashed { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 3; }
.column { shape-rendering: crispEdges; }
.allowed { fill: var(--allowed); }
.denied { fill: var(--denied); }
.shadow { fill: var(--shadow); }
.expired { fill: var(--allowed); fill-opacity: .38; }
.zone { fill: var(--allowed); }
.track { fill: var(--line); }
.hit { fill: transparent; }
g:hover > .hit { fill: var(--line); opacity: .55; }
.current { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.curve { fill: none; stroke: var(--allowed); stroke-width: 2; }
.under { fill: var(--allowed); opacity: .13; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); }
.legend { margin: 0 0 6px; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 12px; height: 10px; margin-right: 6px; }
details { border-top: 1px solid var(--line); padding: 10px 0 4px; }
summary { cursor: pointer; font-weight: 600; }
pre { background: var(--page); border-radius: 8px; padding: 12px 14px; overflow-x: auto; }
pre { font-size: 13px; margin: 8px 0 0; }
footer { color: var(--soft); font-size: 13px; margin: 20px 0 0; }
@media (max-width: 720px) {
  main { padding: 16px 12px 32px; }
  h1 { font-size: 21px; }
  section { padding: 14px; }
  .beside { grid-template-columns: minmax(0, 1fr); }
  th, td { padding-right: 9px; }
  .bars { min-width: 56px; }
  td.name div { white-space: nowrap; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .tiles b { font-size: 20px; }
  th.number { white-space: normal; }
  pre { white-space: pre-wrap; }
  .wide, .wide tbody { display: block; }
  .wide thead { display: none; }
  .wide tr { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 10px 0; }
  .wide tr { border-bottom: 1px solid var(--line); }
  .wide tr:last-child { border-bottom: 0; }
  .wide td { border: 0; padding: 0; text-align: left; min-width: 0; }
  .wide td:first-child { flex: 1 0 100%; font-weight: 600; }
  .wide td:not(:first-child)::before { content: attr(data-heading); display: block; }
  .wide td::before { color: var(--soft); font: 12px/1.5 system-ui, sans-serif; }
  .wide .bars { flex: 1 0 100%; }
  .wide td.name div { white-space: normal; }
}
@media print {
  body { background: none; }
  section { break-inside: avoid; }
}
`;
