//! Parameters that the style table does not cover: nested, empty and reserved values, content, and
//! server URLs with a path or query.

use serde_json::{Value, json};

use super::echo_server::EchoServer;
use super::plans::{
    content_parameter, fill_request, plan, styled_parameter, with_reserved_allowed,
};
use crate::openapi::plan::{Parameter, ParameterLocation, Style};
use ParameterLocation::{Cookie, Header, Path, Query, QueryString};

fn optional(parameter: Parameter) -> Parameter {
    Parameter { required: false, ..parameter }
}

fn form_query(name: &str) -> Parameter {
    styled_parameter(name, Query, Style::Form, true)
}

fn deep_object_query(name: &str) -> Parameter {
    styled_parameter(name, Query, Style::DeepObject, true)
}

#[tokio::test]
async fn query_parameters_are_encoded_exactly() {
    let echo_server = EchoServer::start().await;
    let list = |name| styled_parameter(name, Query, Style::Form, false);
    let rows: Vec<(Vec<Parameter>, Value, &str)> = vec![
        // Order, names and numbers.
        (vec![form_query("b"), form_query("a")], json!({"a": 1, "b": true}), "b=true&a=1"),
        (vec![form_query("a")], json!({"a": 1.50}), "a=1.5"),
        (
            vec![form_query("a")],
            json!({"a": 18_446_744_073_709_551_615_u64}),
            "a=18446744073709551615",
        ),
        (vec![form_query("a b[]&=#")], json!({"a b[]&=#": "x"}), "a%20b%5B%5D%26%3D%23=x"),
        (
            vec![form_query("q")],
            json!({"q": "ä+ &=#/?%41'"}),
            "q=%C3%A4%2B%20%26%3D%23%2F%3F%2541%27",
        ),
        (vec![list("q")], json!({"q": ["a,b", "c"]}), "q=a%2Cb,c"),
        // Undefined values are omitted unless the parameter is required.
        (vec![form_query("a")], json!({}), ""),
        (vec![optional(form_query("a"))], json!({"a": null}), ""),
        (vec![optional(form_query("a"))], json!({"a": []}), ""),
        (vec![optional(form_query("a"))], json!({"a": {"b": null}}), ""),
        (vec![optional(form_query("a"))], json!({"a": ""}), "a="),
        (
            vec![form_query("a"), form_query("b"), form_query("c")],
            json!({"a": null, "b": [], "c": {}}),
            "a=&b=&c=",
        ),
        (vec![form_query("a")], json!({"a": [1, null, 2]}), "a=1&a=2"),
        (vec![form_query("a")], json!({"a": {"x": null, "y": ""}}), "y="),
        // Nested values become JSON or brackets.
        (vec![list("a")], json!({"a": [[1], {"b": 2}]}), "a=%5B1%5D,%7B%22b%22%3A2%7D"),
        (
            vec![deep_object_query("a")],
            json!({"a": {"b": {"c": 1}, "d": null}}),
            "a%5Bb%5D%5Bc%5D=1",
        ),
        (
            vec![deep_object_query("a")],
            json!({"a": {"b": [1, 2]}}),
            "a%5Bb%5D%5B%5D=1&a%5Bb%5D%5B%5D=2",
        ),
        (
            vec![deep_object_query("a")],
            json!({"a": [{"b": 1, "c": 2}, {"b": 3}]}),
            "a%5B0%5D%5Bb%5D=1&a%5B0%5D%5Bc%5D=2&a%5B1%5D%5Bb%5D=3",
        ),
        (vec![deep_object_query("a")], json!({"a": {"x]y": "&"}}), "a%5Bx%5Dy%5D=%26"),
        // Reserved characters and `%XX` triplets are kept; `#`, which would end the query, is
        // escaped.
        (
            vec![with_reserved_allowed(form_query("q"))],
            json!({"q": "/a?b=c&d;%20% é#"}),
            "q=/a?b=c&d;%20%25%20%C3%A9%23",
        ),
        // Content.
        (
            vec![content_parameter("f", Query, "application/json")],
            json!({"f": {"a": [1, "ä&"]}}),
            "f=%7B%22a%22%3A%5B1%2C%22%C3%A4%26%22%5D%7D",
        ),
        (vec![content_parameter("f", Query, "application/json")], json!({"f": "x"}), "f=%22x%22"),
        (vec![content_parameter("f", Query, "text/plain")], json!({"f": "x y"}), "f=x%20y"),
        (
            vec![content_parameter("f", QueryString, "application/x-www-form-urlencoded")],
            json!({"f": {"foo": "a + b", "bar": true, "list": [1, 2], "o": {"x": 1}, "n": null}}),
            "foo=a+%2B+b&bar=true&list=1&list=2&o=%7B%22x%22%3A1%7D",
        ),
        (
            vec![content_parameter("f", QueryString, "application/json")],
            json!({"f": {"numbers": [1, 2], "flag": null}}),
            "%7B%22numbers%22%3A%5B1%2C2%5D%2C%22flag%22%3Anull%7D",
        ),
        (
            vec![content_parameter("f", QueryString, "application/jsonpath")],
            json!({"f": "$.a.b[1:1]"}),
            "%24.a.b%5B1%3A1%5D",
        ),
    ];
    for (parameters, input, expected) in rows {
        let prepared = fill_request(plan("/q", parameters), &echo_server.url, &input).unwrap();
        let seen = echo_server.send(prepared).await;
        assert_eq!((seen.path(), seen.query()), ("/q", expected), "{input}");
    }
}

#[tokio::test]
async fn server_path_and_query_are_kept() {
    let echo_server = EchoServer::start().await;
    let x = || vec![styled_parameter("x", Path, Style::Simple, false)];
    let rows: Vec<(&str, &str, Vec<Parameter>, &str)> = vec![
        ("", "/pets", vec![], "/pets"),
        ("v1", "/pets", vec![], "/v1/pets"),
        ("v1/", "/pets/", vec![], "/v1/pets/"),
        ("v1", "pets", vec![], "/v1/pets"),
        ("v1?key=1", "/pets", vec![form_query("x")], "/v1/pets?key=1&x=a%2Fb"),
        ("v1?key=1", "/pets?all", vec![form_query("x")], "/v1/pets?all&key=1&x=a%2Fb"),
        ("v1", "/pets/#Target=A", vec![], "/v1/pets/"),
        ("v1", "/pets//{x}.json", x(), "/v1/pets//a%2Fb.json"),
        ("v1", "/pets?like={x}", x(), "/v1/pets?like=a%2Fb"),
        ("v1", "/pets?like={x}", vec![form_query("x")], "/v1/pets?like=a%2Fb"),
        ("v1", "/{x}:cancel", x(), "/v1/a%2Fb:cancel"),
        ("v1", "/{x}/{x}", x(), "/v1/a%2Fb/a%2Fb"),
        ("v1", "/{x}", vec![with_reserved_allowed(x().remove(0))], "/v1/a%2Fb"),
        ("v1", "/a b/{x}", x(), "/v1/a%20b/a%2Fb"),
    ];
    for (server, path, parameters, expected) in rows {
        let server = echo_server.url.join(server).unwrap();
        let prepared = fill_request(plan(path, parameters), &server, &json!({"x": "a/b"})).unwrap();
        assert_eq!(echo_server.send(prepared).await.target, expected, "{server} {path}");
    }
}

#[tokio::test]
async fn header_and_cookie_parameters_are_sent_unescaped() {
    let echo_server = EchoServer::start().await;
    let header = |name| styled_parameter(name, Header, Style::Simple, false);
    let cookie = |name| styled_parameter(name, Cookie, Style::Form, true);
    let parameters = vec![
        header("X-Text"),
        header("X-List"),
        content_parameter("X-Json", Header, "application/json"),
        header("Cookie"),
        cookie("a b"),
        content_parameter("j", Cookie, "application/json"),
        styled_parameter("raw", Cookie, Style::Cookie, true),
        optional(header("X-None")),
    ];
    let input = json!({
        "X-Text": "a %20;\"b\"", "X-List": ["a,b", 1], "X-Json": {"ä": "\u{1F600}\n"},
        "Cookie": "z=1", "a b": "ö; x=1", "j": {"k": 1}, "raw": "%C3=b", "X-None": null,
    });
    let seen = echo_server
        .send(fill_request(plan("/h", parameters), &echo_server.url, &input).unwrap())
        .await;
    assert_eq!(seen.method, "POST");
    let rows = [
        ("x-text", Some("a %20;\"b\"")),
        ("x-list", Some("a,b,1")),
        ("x-json", Some(r#"{"\u00e4":"\ud83d\ude00\n"}"#)),
        ("cookie", Some("z=1; a%20b=%C3%B6%3B%20x%3D1; j=%7B%22k%22%3A1%7D; raw=%C3=b")),
        ("x-none", None),
        ("accept", Some("*/*")),
        ("content-type", None),
    ];
    for (name, expected) in rows {
        assert_eq!(seen.header(name), expected, "{name}");
    }
}
