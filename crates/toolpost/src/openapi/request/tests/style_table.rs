//! The "Style Examples" table of the specification, with additional rows for what it leaves
//! undefined.

use serde_json::{Value, json};

use super::decode::{ValueKind, decode_inline, decode_query, stringify_scalars};
use super::echo_server::EchoServer;
use super::plans::{fill_request, plan, styled_parameter};
use crate::openapi::plan::{ParameterLocation, Style};
use ParameterLocation::{Cookie, Header, Path, Query};

/// Location, style, `explode`, and the expected text of an empty string, a string, an array and an
/// object.
type StyleRow = (ParameterLocation, Style, bool, [&'static str; 4]);

/// Marks a value that is rejected because its path segment would be empty or a dot.
const REJECTED: &str = "(rejected)";

const TABLE: &[StyleRow] = &[
    // The table of OpenAPI 3.2, which includes those of 3.0 and 3.1.
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
    (Path, Style::Label, false, [REJECTED, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"]),
    (Path, Style::Label, true, [REJECTED, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"]),
    (Path, Style::Simple, false, [REJECTED, "blue", "blue,black,brown", "R,100,G,200,B,150"]),
    (Path, Style::Simple, true, [REJECTED, "blue", "blue,black,brown", "R=100,G=200,B=150"]),
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
    // Combinations that the table leaves undefined.
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
    // Collection formats of Swagger 2.0, which are allowed in any location.
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
        [REJECTED, "blue", "blue%20black%20brown", "R%20100%20G%20200%20B%20150"],
    ),
    (
        Path,
        Style::PipeDelimited,
        false,
        [REJECTED, "blue", "blue%7Cblack%7Cbrown", "R%7C100%7CG%7C200%7CB%7C150"],
    ),
    (
        Path,
        Style::TabDelimited,
        false,
        [REJECTED, "blue", "blue%09black%09brown", "R%09100%09G%09200%09B%09150"],
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
async fn style_examples_of_the_specification_are_encoded() {
    let echo_server = EchoServer::start().await;
    for (location, style, explode, expected) in TABLE {
        let values = [
            json!(""),
            json!("blue"),
            json!(["blue", "black", "brown"]),
            json!({"R": 100, "G": 200, "B": 150}),
        ];
        for (value, expected) in values.iter().zip(expected) {
            let case = format!("{location:?} {style:?} explode={explode} {value}");
            let arrived = send_parameter(&echo_server, *location, *style, *explode, value).await;
            assert_eq!(arrived.as_deref().unwrap_or(REJECTED), *expected, "{case}");
            let Some(arrived) = arrived else { continue };
            // The specification does not define arrays in `deepObject`, so there is no decoder for
            // them.
            if *style == Style::DeepObject && value.is_array() {
                continue;
            }
            let read = decode(*location, *style, *explode, value, &arrived);
            assert_eq!(read, stringify_scalars(value), "{case} is decoded by the server");
        }
    }
}

/// Returns the parameter as the server received it, or `None` if it was rejected.
async fn send_parameter(
    echo_server: &EchoServer,
    location: ParameterLocation,
    style: Style,
    explode: bool,
    value: &Value,
) -> Option<String> {
    let path = if location == Path { "/at/{color}" } else { "/at" };
    let plan = plan(path, vec![styled_parameter("color", location, style, explode)]);
    let prepared = match fill_request(plan, &echo_server.url, &json!({"color": value})) {
        Ok(prepared) => prepared,
        Err((input_path, message)) => {
            assert!(
                input_path == "/color" && message.contains("change the path"),
                "{input_path}: {message}"
            );
            return None;
        }
    };
    let seen = echo_server.send(prepared).await;
    Some(match location {
        Path => seen.target.strip_prefix("/at/").unwrap().to_owned(),
        Header => seen.header("color").unwrap().to_owned(),
        Cookie => seen.header("cookie").unwrap().to_owned(),
        _ => seen.query().to_owned(),
    })
}

fn decode(
    location: ParameterLocation,
    style: Style,
    explode: bool,
    value: &Value,
    text: &str,
) -> Value {
    let kind = ValueKind::of_value(value);
    match location {
        Path => decode_inline(style, explode, kind, "color", text),
        // Delimiters are not escaped in a header.
        Header => {
            let escaped = text.replace(' ', "%20").replace('|', "%7C").replace('\t', "%09");
            decode_inline(style, explode, kind, "color", &escaped)
        }
        Cookie => decode_query(Style::Cookie, explode, kind, "color", text),
        _ => decode_query(style, explode, kind, "color", text),
    }
}
