//! The page.

use std::fmt::Write;

use network::text::grouped;

use super::scatter::{Mark, Scatter, Series};
use super::table::{NOT_MEASURED, describe, published, results};
use super::{Group, Point, picture};
use crate::ParetoFront;
use crate::report::{STYLE, escape};
use crate::reproduce::{self, PublishedPoint};

/// The page. Well-formed, and loads nothing from anywhere.
pub fn page(groups: &[Group]) -> String {
    let mut page = format!("{HEAD}{STYLE}{OWN_STYLE}<title>Results · Sordino</title></head><body><main>\n");
    page.push_str("<h1>Accuracy for few ReLUs</h1>\n");
    for group in groups {
        page.push_str(&section(group));
    }
    page.push_str("</main>");
    page.push_str(SCRIPT);
    page.push_str("</body></html>\n");
    page
}

fn section(group: &Group) -> String {
    // The papers print accuracies on test images.
    let papers = if group.on == "test" { reproduce::published(group.data) } else { Vec::new() };
    let mut text = format!("<h2>{}</h2>\n", escape(&group.title()));
    if !papers.is_empty() {
        text.push_str(
            "<p class=\"note\">Ours: the last epoch of one run. The papers chose their epoch on the test images, so \
             their points are favored.</p>\n",
        );
    }
    text.push_str("<h3>Accuracy in % against ReLUs</h3>\n");
    text.push_str(&against_relus(group, &papers));
    text.push_str("<h3>Accuracy in % against time</h3>\n");
    text.push_str(&against_latency(group, &papers));
    text.push_str("<h3>Results</h3>\n");
    text.push_str(&results(group));
    for point in &group.points {
        text.push_str(&detail(point));
    }
    if !papers.is_empty() {
        text.push_str("<h3>The papers' points</h3>\n");
        text.push_str(&published(&papers));
    }
    text
}

fn against_relus(group: &Group, papers: &[PublishedPoint]) -> String {
    let mark = |point: &Point| Mark {
        x: point.record.relus as f64,
        y: point.record.accuracy().0,
        label: point.number.to_string(),
        title: format!(
            "{}: {} ReLUs, {:.2}%",
            point.record.title,
            grouped(point.record.relus),
            point.record.accuracy().0
        ),
        on_front: point.on_front,
    };
    let ours = Series {
        name: "ours, numbered as in the table; pale where beaten".to_owned(),
        color: 0,
        is_ours: true,
        marks: group.points.iter().map(mark).collect(),
    };
    let x_text = |value: f64| if value >= 1e3 { format!("{}K", value / 1e3) } else { value.to_string() };
    let series =
        std::iter::once(ours).chain(papers_series(papers, |point| Some(point.relus as f64))).collect();
    Scatter { x_title: "ReLUs".to_owned(), y_title: "accuracy, %".to_owned(), x_text, series }.svg()
}

fn against_latency(group: &Group, papers: &[PublishedPoint]) -> String {
    let mut by_setting: Vec<(String, Vec<Mark>)> = Vec::new();
    for point in &group.points {
        for timing in &point.record.private {
            let setting = describe(timing);
            let mark = Mark {
                x: timing.online_s,
                y: point.record.accuracy().0,
                label: point.number.to_string(),
                title: format!("{}: {:.1} ms", point.record.title, 1e3 * timing.online_s),
                // Few ReLUs are not always little time.
                on_front: false,
            };
            match by_setting.iter_mut().find(|(known, _)| *known == setting) {
                Some((_, marks)) => marks.push(mark),
                None => by_setting.push((setting, vec![mark])),
            }
        }
    }
    if by_setting.is_empty() {
        return format!(
            "<p class=\"note\">{NOT_MEASURED}: <code>sordino bench private MODEL.sordino --record RUN</code> measures a \
             frozen model and adds it.</p>\n"
        );
    }
    let mut series: Vec<Series> = Vec::new();
    for (index, (setting, mut marks)) in by_setting.into_iter().enumerate() {
        find_front(&mut marks);
        let color = [0, 5, 6, 7][index % 4];
        let name = format!("ours, measured online: {setting}");
        series.push(Series { name, color, is_ours: true, marks });
    }
    series.extend(papers_series(papers, |point| point.latency));
    let x_text = |value: f64| {
        if value < 1.0 { format!("{} ms", (value * 1e4).round() / 10.0) } else { format!("{value} s") }
    };
    let title = "ours: from image to answer; what the papers' contain is below";
    let scatter = Scatter { x_title: title.to_owned(), y_title: "accuracy, %".to_owned(), x_text, series };
    let missing = group.points.iter().filter(|point| point.record.private.is_empty()).count();
    let note = match missing {
        0 => String::new(),
        _ => format!("<p class=\"note\">{missing} of the results below: {NOT_MEASURED}.</p>\n"),
    };
    scatter.svg() + &note
}

/// Tells each mark whether no other is both as far left and as high.
fn find_front(marks: &mut [Mark]) {
    let mut front = ParetoFront::default();
    for (place, mark) in marks.iter().enumerate() {
        front.insert((mark.x * 1e6) as u64, mark.y, place);
    }
    for (_, _, place) in front.points() {
        marks[*place].on_front = true;
    }
}

/// One series for each paper, with its own front.
fn papers_series(points: &[PublishedPoint], x: fn(&PublishedPoint) -> Option<f64>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (index, paper) in reproduce::papers().iter().enumerate() {
        let own: Vec<&PublishedPoint> = points.iter().filter(|point| point.paper == paper.paper).collect();
        let mark = |point: &&PublishedPoint| {
            let title = format!(
                "{}, {}: {}, {} ReLUs, {}%",
                point.paper, point.place, point.row, point.printed_relus, point.accuracy
            );
            Some(Mark { x: x(point)?, y: point.accuracy, label: String::new(), title, on_front: false })
        };
        let mut marks: Vec<Mark> = own.iter().filter_map(mark).collect();
        find_front(&mut marks);
        let name = format!("{}, as printed", paper.paper);
        series.push(Series { name, color: index + 1, is_ours: false, marks });
    }
    series
}

/// What else is known of a result: its layers, its mask, its recipe.
fn detail(point: &Point) -> String {
    let record = &point.record;
    let mut text = format!(
        "<details{}><summary>{}. {}</summary>\n",
        if point.detail.as_ref().is_some_and(|detail| !detail.masks.is_empty()) {
            " open=\"open\""
        } else {
            ""
        },
        point.number,
        escape(&record.title)
    );
    if let Some(detail) = &point.detail {
        let _ = write!(
            text,
            "<p class=\"legend\"><span><i class=\"box before\"></i>{} with all its ReLUs</span> <span><i class=\"box \
             after\"></i>what is left of them, layer by layer</span></p>\n{}",
            escape(&detail.full_network),
            picture::bars(detail)
        );
        if !detail.masks.is_empty() {
            text.push_str(
                "<p class=\"legend\"><span>Where ReLUs stay: one pixel for each of the map, the stronger the more channels \
                 keep theirs.</span></p>\n",
            );
            text.push_str(&picture::masks(&detail.masks));
        }
    }
    let _ = writeln!(
        text,
        "<p class=\"legend\"><span>checkpoint <code>{}</code></span></p>\n<details><summary>its recipe</summary>\
         <pre>{}</pre></details></details>",
        escape(&record.checkpoint),
        escape(&record.recipe.to_toml())
    );
    text
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src \
'unsafe-inline'; img-src data:\"/>\n";

const OWN_STYLE: &str = "<style>
main{max-width:1040px}h3{font-size:.95rem;margin:26px 0 6px;font-weight:600}
h2{font-size:1.2rem;border-top:1px solid var(--line);padding-top:20px}
td{max-width:24em;overflow:hidden;text-overflow:ellipsis}.sortable td:nth-child(3){white-space:normal;min-width:15em}tr.front td{font-weight:600}
th.can{cursor:pointer}th.can:hover{color:var(--ink)}
.legend,.note{color:var(--faint);font-size:.86rem;margin:4px 0}.legend span{margin-right:16px}
.dot{display:inline-block;width:9px;height:9px;border-radius:50%;background:currentColor;border:1.5px solid;margin-right:6px}
.ring{background:var(--paper)}.box{display:inline-block;width:12px;height:12px;margin-right:6px;vertical-align:-1px}
.before{fill:var(--line);background:var(--line)}.after{fill:var(--c0);background:var(--c0)}
svg .label{fill:var(--ink);font-weight:600}
details{margin:8px 0;padding:6px 0}summary{cursor:pointer}details details{margin-left:12px}
pre{overflow-x:auto;font-size:.8rem;color:var(--faint)}
.masks{display:flex;flex-wrap:wrap;gap:12px}figure{margin:0;width:112px}
figure img{image-rendering:pixelated;border:1px solid var(--line);background:var(--paper)}
figcaption{font-size:.7rem;color:var(--faint);overflow-wrap:anywhere;line-height:1.3}
</style>";

/// Sorts a table by the column whose head is clicked; the page is complete without it.
const SCRIPT: &str = "<script>
document.querySelectorAll('table.sortable').forEach(function(table){
 var body=table.tBodies[0];
 table.querySelectorAll('th').forEach(function(head,column){
  head.className='can';head.tabIndex=0;
  head.addEventListener('keydown',function(event){if(event.key==='Enter'||event.key===' '){event.preventDefault();head.click();}});
  head.addEventListener('click',function(){
   var down=head.getAttribute('aria-sort')==='ascending';
   table.querySelectorAll('th').forEach(function(other){other.removeAttribute('aria-sort');});
   head.setAttribute('aria-sort',down?'descending':'ascending');
   var key=function(row){var cell=row.cells[column],text=cell.dataset.key;return text===undefined?cell.textContent:text;};
   Array.from(body.rows).sort(function(a,b){
    var x=key(a),y=key(b);
    if(x===''||y==='')return (x==='')-(y==='');
    var order=isNaN(x)||isNaN(y)?x.localeCompare(y):x-y;
    return down?-order:order;
   }).forEach(function(row){body.appendChild(row);});
  });
 });
});
</script>";

#[cfg(test)]
mod tests;
