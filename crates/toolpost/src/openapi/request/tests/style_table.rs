//! The table "Style Examples" of the specification, row by row, with what it leaves open.

use serde_json::{Value, json};

use super::far::Far;
use super::plans::{filled, plan, styled};
use super::reading::{Kind, as_texts, inline, query};
use crate::openapi::plan::{Position, Style};
use Position::{Cookie, Header, Path, Query};

/// Where, how and exploded or not; what an empty text, a text, a list and an object become.
type Row = (Position, Style, bool, [&'static str; 4]);

/// What a segment that would be nothing or a dot becomes: a refusal.
const REFUSED: &str = "(refused)";

const TABLE: &[Row] = &[
    // The table of 3.2, which holds those of 3.0 and 3.1.
    (
        Path,
        Style::Matrix,
        false,
        [";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"],
    ),
    (
        Path,
        Style::Matrix,
        true,
        [";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"],
    ),
    (Path, Style::Label, false, [REFUSED, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"]),
    (Path, Style::Label, true, [REFUSED, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"]),
    (Path, Style::Simple, false, [REFUSED, "blue", "blue,black,brown", "R,100,G,200,B,150"]),
    (Path, Style::Simple, true, [REFUSED, "blue", "blue,black,brown", "R=100,G=200,B=150"]),
    (Header, Style::Simple, false, ["", "blue", "blue,black,brown", "R,100,G,200,B,150"]),
    (Header, Style::Simple, true, ["", "blue", "blue,black,brown", "R=100,G=200,B=150"]),
    (
        Query,
        Style::Form,
        false,
        ["color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"],
    ),
    (
        Query,
        Style::Form,
        true,
        ["color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"],
    ),
    (
        Cookie,
        Style::Form,
        false,
        ["color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"],
    ),
    (
        Cookie,
        Style::Cookie,
        false,
        ["color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"],
    ),
    (
        Cookie,
        Style::Cookie,
        true,
        ["color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"],
    ),
    (
        Query,
        Style::SpaceDelimited,
        false,
        ["color=", "color=blue", "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"],
    ),
    (
        Query,
        Style::PipeDelimited,
        false,
        ["color=", "color=blue", "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"],
    ),
    (
        Query,
        Style::DeepObject,
        true,
        [
            "color=",
            "color=blue",
            "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown",
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ],
    ),
    // What the table leaves open.
    (
        Query,
        Style::SpaceDelimited,
        true,
        ["color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"],
    ),
    (
        Query,
        Style::PipeDelimited,
        true,
        ["color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"],
    ),
    (
        Query,
        Style::DeepObject,
        false,
        [
            "color=",
            "color=blue",
            "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown",
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ],
    ),
    (
        Cookie,
        Style::Form,
        true,
        ["color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"],
    ),
    // The formats of collections of Swagger 2.0, which may stand anywhere.
    (
        Query,
        Style::TabDelimited,
        false,
        ["color=", "color=blue", "color=blue%09black%09brown", "color=R%09100%09G%09200%09B%09150"],
    ),
    (
        Path,
        Style::SpaceDelimited,
        false,
        [REFUSED, "blue", "blue%20black%20brown", "R%20100%20G%20200%20B%20150"],
    ),
    (
        Path,
        Style::PipeDelimited,
        false,
        [REFUSED, "blue", "blue%7Cblack%7Cbrown", "R%7C100%7CG%7C200%7CB%7C150"],
    ),
    (
        Path,
        Style::TabDelimited,
        false,
        [REFUSED, "blue", "blue%09black%09brown", "R%09100%09G%09200%09B%09150"],
    ),
    (Header, Style::SpaceDelimited, false, ["", "blue", "blue black brown", "R 100 G 200 B 150"]),
    (Header, Style::PipeDelimited, false, ["", "blue", "blue|black|brown", "R|100|G|200|B|150"]),
    (
        Header,
        Style::TabDelimited,
        false,
        ["", "blue", "blue\tblack\tbrown", "R\t100\tG\t200\tB\t150"],
    ),
];

#[tokio::test]
async fn every_row_of_the_style_table_arrives_as_it_stands_there() {
    let far = Far::start().await;
    for (position, style, explode, expected) in TABLE {
        let values = [
            json!(""),
            json!("blue"),
            json!(["blue", "black", "brown"]),
            json!({"R": 100, "G": 200, "B": 150}),
        ];
        for (value, expected) in values.iter().zip(expected) {
            let named = format!("{position:?} {style:?} explode={explode} {value}");
            let arrived = arrived(&far, *position, *style, *explode, value).await;
            assert_eq!(arrived.as_deref().unwrap_or(REFUSED), *expected, "{named}");
            let Some(arrived) = arrived else { continue };
            // A list in brackets is our own choice; there is nothing to read it by.
            if *style == Style::DeepObject && value.is_array() {
                continue;
            }
            let read = read(*position, *style, *explode, value, &arrived);
            assert_eq!(read, as_texts(value), "{named} is read on the far side");
        }
    }
}

/// What stands at the place of the parameter when it arrives; nothing if it was refused.
async fn arrived(
    far: &Far,
    position: Position,
    style: Style,
    explode: bool,
    value: &Value,
) -> Option<String> {
    let path = if position == Path { "/at/{color}" } else { "/at" };
    let plan = plan(path, vec![styled("color", position, style, explode)]);
    let prepared = match filled(plan, &far.address, &json!({"color": value})) {
        Ok(prepared) => prepared,
        Err((place, words)) => {
            assert!(place == "/color" && words.contains("another path"), "{place}: {words}");
            return None;
        }
    };
    let seen = far.sent(prepared).await;
    Some(match position {
        Path => seen.target.strip_prefix("/at/").unwrap().to_owned(),
        Header => seen.header("color").unwrap().to_owned(),
        Cookie => seen.header("cookie").unwrap().to_owned(),
        _ => seen.query().to_owned(),
    })
}

fn read(position: Position, style: Style, explode: bool, value: &Value, text: &str) -> Value {
    let kind = Kind::of(value);
    match position {
        Path => inline(style, explode, kind, "color", text),
        // A header has its delimiters as they are.
        Header => {
            let escaped = text.replace(' ', "%20").replace('|', "%7C").replace('\t', "%09");
            inline(style, explode, kind, "color", &escaped)
        }
        Cookie => query(Style::Cookie, explode, kind, "color", text),
        _ => query(style, explode, kind, "color", text),
    }
}
