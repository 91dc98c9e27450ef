use super::*;
use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, GB18030, GBK, ISO_8859_2, KOI8_R, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251,
    WINDOWS_1252, WINDOWS_1253, WINDOWS_1254, WINDOWS_1255,
};
use proptest::prelude::*;

const JAPANESE: &str = "設定ファイルを読み込みます。\nこの行はテストです。\nバックスラッシュ表示\n";
const CHINESE: &str = "配置文件的说明\n这是一个测试文件，用来检查编码。\n";
const TAIWAN: &str = "設定檔的說明\n這是一個測試檔案，用來檢查編碼。\n";
const KOREAN: &str = "설정 파일의 설명\n이것은 인코딩을 검사하는 시험 파일입니다.\n";
const RUSSIAN: &str = "Описание файла настроек\nЭто проверочный файл.\n";
const FRENCH: &str = "Les élèves étaient déjà là, près du café où naît l'été.\nÀ bientôt, chère amie; ça va être très agréable.\n";

fn found(content: &[u8]) -> Detected {
    let Content::Text(found) = detect(content) else { panic!("{:?}", detect(content)) };
    found
}

#[test]
fn old_encodings_are_told_by_their_letters() {
    for (text, encoding) in [
        (JAPANESE, SHIFT_JIS),
        (JAPANESE, EUC_JP),
        (CHINESE, GBK),
        (TAIWAN, BIG5),
        (KOREAN, EUC_KR),
        (RUSSIAN, WINDOWS_1251),
        (FRENCH, WINDOWS_1252),
    ] {
        let text = text.repeat(2);
        let bytes = Encoding { charset: Charset::Legacy(encoding), has_mark: false }.encode(&text).unwrap();
        let found = found(&bytes);
        assert_eq!(found.encoding.charset, Charset::Legacy(encoding), "{text}");
        assert_eq!(found.ground, Ground::Letters { is_sure: true }, "{text}");
        assert_eq!(found.encoding.decode(&bytes).text, text);
    }
}

/// Sentences as they stand in comments; of each all runs of words are tried.
const SENTENCES: &[(&str, &[&encoding_rs::Encoding])] = &[
    (
        "この関数は設定ファイルを読み込んで、結果を返します。エラーが発生した場合は例外を投げる。データベースへの接続を確認してください。ユーザー名とパスワードが必要です。表示する項目の一覧。",
        &[SHIFT_JIS, EUC_JP],
    ),
    (
        "此函数读取配置文件并返回结果。如果发生错误则抛出异常。请检查数据库连接。需要用户名和密码。显示项目列表。这是一个测试程序，用于检查编码是否正确。",
        &[GBK],
    ),
    (
        "此函數讀取設定檔並傳回結果。如果發生錯誤則擲出例外。請檢查資料庫連線。需要使用者名稱和密碼。顯示項目清單。",
        &[BIG5],
    ),
    (
        "이 함수는 설정 파일을 읽고 결과를 반환합니다. 오류가 발생하면 예외를 던집니다. 데이터베이스 연결을 확인하십시오. 사용자 이름과 암호가 필요합니다.",
        &[EUC_KR],
    ),
    (
        "Эта функция читает файл настроек и возвращает результат. Если возникает ошибка, бросается исключение. Проверьте соединение с базой данных.",
        &[WINDOWS_1251, KOI8_R],
    ),
    (
        "Cette fonction lit le fichier de paramètres et renvoie le résultat. Si une erreur se produit, une exception est levée. L'été dernier, où étaient les élèves? Déjà répété, naïf, garçon, forêt, hôtel.",
        &[WINDOWS_1252],
    ),
    (
        "Diese Funktion liest die Datei und gibt das Ergebnis zurück. Prüfen Sie die Verbindung. Größe, Straße, über, für, Schlüssel, Übersicht, können, müssen, ändern, löschen, öffnen, schließen.",
        &[WINDOWS_1252],
    ),
    (
        "Ta funkcja czyta plik ustawień i zwraca wynik. Jeśli wystąpi błąd, zostanie zgłoszony wyjątek. Sprawdź połączenie z bazą danych. Nazwa użytkownika i hasło są wymagane. Żółć, gęś, źdźbło, łódź.",
        &[WINDOWS_1250, ISO_8859_2],
    ),
    (
        "Αυτή η συνάρτηση διαβάζει το αρχείο ρυθμίσεων και επιστρέφει το αποτέλεσμα. Ελέγξτε τη σύνδεση με τη βάση δεδομένων.",
        &[WINDOWS_1253],
    ),
    (
        "Bu işlev ayar dosyasını okur ve sonucu döndürür. Bir hata oluşursa istisna fırlatılır. Veritabanı bağlantısını kontrol edin. Kullanıcı adı ve şifre gereklidir. Çalışıyor, güncellendi, öğrenci.",
        &[WINDOWS_1254],
    ),
    ("פונקציה זו קוראת את קובץ ההגדרות ומחזירה את התוצאה. בדוק את החיבור למסד הנתונים.", &[WINDOWS_1255]),
];

#[test]
fn what_is_taken_for_sure_is_right() {
    for (text, encodings) in SENTENCES {
        let words: Vec<&str> = text.split_inclusive([' ', '。', '、', '，']).collect();
        for encoding in *encodings {
            let encoding = Encoding { charset: Charset::Legacy(encoding), has_mark: false };
            let (mut tried, mut sure) = (0, 0);
            for (from, to) in
                (0..words.len()).flat_map(|from| (from + 1..=words.len()).map(move |to| (from, to)))
            {
                let line = format!("// {}\nint x = 1;\n", words[from..to].concat());
                let bytes = encoding.encode(&line).unwrap();
                let Content::Text(found) = detect(&bytes) else { panic!("{line}") };
                tried += 1;
                if found.ground == (Ground::Letters { is_sure: true }) {
                    sure += 1;
                    assert_eq!(found.encoding.decode(&bytes).text, line, "{}", encoding.name());
                }
            }
            // And a few sentences are enough.
            assert!(sure * 10 > tried, "{}: {sure} of {tried}", encoding.name());
        }
    }
}

#[test]
fn marks_zeros_and_validity_decide_before_letters_do() {
    let row = |content: &[u8]| {
        let found = found(content);
        (found.encoding.name(), found.encoding.has_mark, found.ground)
    };
    assert_eq!(row(b"plain\n"), ("UTF-8", false, Ground::Valid));
    assert_eq!(row("naïve 日本\n".as_bytes()), ("UTF-8", false, Ground::Valid));
    assert_eq!(row(b"\xef\xbb\xbfa"), ("UTF-8", true, Ground::Mark));
    assert_eq!(row(b"\xff\xfea\0"), ("UTF-16LE", true, Ground::Mark));
    assert_eq!(row(b"\xfe\xff\0a"), ("UTF-16BE", true, Ground::Mark));
    assert_eq!(row(b"a\0b\0\r\0\n\0"), ("UTF-16LE", false, Ground::Zeros));
    assert_eq!(row(b"\0a\0b\0\n"), ("UTF-16BE", false, Ground::Zeros));
    assert_eq!(row("日本語のテスト \u{e9}".as_bytes()).2, Ground::Valid);
    assert_eq!(row(&[JAPANESE.as_bytes(), b"\xff\n"].concat()), ("UTF-8", false, Ground::Mostly));
    assert_eq!(row(b"caf\xe9\n").2, Ground::Letters { is_sure: false });
    assert_eq!(detect(b""), Content::Empty);
    for binary in
        [&b"\x7fELF\x02"[..], b"ab\0c", b"\x01\0\x02\0\x03\0\x04\0", b"\xff\xfe\0\0a\0\0\0", b"\x1f\x8b\x08"]
    {
        assert_eq!(detect(binary), Content::Binary, "{binary:?}");
    }
    assert_eq!(detect(&[0xa1, 1, 2, 3, 4, 5, 6, 7, 0x80, 0x90]), Content::Binary);
}

#[test]
fn a_character_that_does_not_exist_is_named() {
    let latin = Encoding { charset: Charset::Legacy(WINDOWS_1252), has_mark: false };
    let missing = latin.encode("é日").unwrap_err();
    assert_eq!(missing.to_string(), "'日' (U+65E5) does not exist in windows-1252");
    assert_eq!(latin.encode("é€").unwrap(), b"\xe9\x80");
}

#[test]
fn pictures_and_documents_are_told_by_their_start() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08";
    let kind = kind_of(png).unwrap();
    assert_eq!((kind.mime, kind.pixels), (Some("image/png"), Some((640, 480))));
    assert_eq!(kind_of(b"GIF89a\x10\0\x20\0").unwrap().pixels, Some((16, 32)));
    let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x20\0\x40\x03";
    assert_eq!(kind_of(jpeg).unwrap().pixels, Some((64, 32)));
    let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x3f\0\0\x1f\0\0";
    assert_eq!(kind_of(webp).unwrap().pixels, Some((64, 32)));
    assert_eq!(kind_of(b"%PDF-1.7\n").unwrap().mime, Some("application/pdf"));
    assert_eq!(kind_of(b"plain text"), None);
    // A header that lies about its length is no reason to fall.
    assert_eq!(kind_of(b"\xff\xd8\xff\xe0\xff\xff").unwrap().pixels, None);
    assert_eq!(kind_of(b"\x89PNG\r\n\x1a\n").unwrap().pixels, None);
}

fn encodings() -> impl Strategy<Value = Encoding> {
    let legacy = [SHIFT_JIS, EUC_JP, GBK, GB18030, BIG5, EUC_KR, WINDOWS_1251, WINDOWS_1252];
    let mut all: Vec<Encoding> = legacy
        .into_iter()
        .map(|encoding| Encoding { charset: Charset::Legacy(encoding), has_mark: false })
        .collect();
    all.extend(
        [Charset::Utf8, Charset::Utf16Le, Charset::Utf16Be]
            .map(|charset| Encoding { charset, has_mark: false }),
    );
    prop::sample::select(all)
}

proptest! {
    #[test]
    fn the_answer_does_not_depend_on_the_pieces(
        content in prop::collection::vec(prop::sample::select(&b"abc \n\xe3\x81\x82\xe9\x82\xff\xa0"[..]), 0..200),
        cuts in prop::collection::vec(0_usize..200, 0..6), gap in 0_usize..40,
    ) {
        let content = [content.as_slice(), &b"x".repeat(gap), &content].concat();
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < content.len()).collect();
        cuts.sort_unstable();
        let mut detector = Detector::default();
        let mut from = 0;
        for cut in cuts.into_iter().chain([content.len()]) {
            detector.push(&content[from..cut]);
            from = cut;
        }
        prop_assert_eq!(detector.finish(true), detect(&content));
    }

    #[test]
    fn places_of_the_text_are_found_in_the_bytes(encoding in encodings(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        // Whatever decodes exactly goes with its bytes character by character.
        let decoded = encoding.decode(&bytes);
        prop_assume!(decoded.is_exact);
        let text = decoded.text;
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        for end in ends {
            // Between the two characters of one code there is no place.
            if let Some(places) = encoding.places_in_bytes(&bytes, &text, &[end]) {
                prop_assert_eq!(encoding.decode(&bytes[..places[0]]).text, &text[..end]);
                prop_assert_eq!(encoding.decode(&bytes[places[0]..]).text, &text[end..]);
            } else {
                prop_assert_eq!(encoding.name(), "Big5");
            }
        }
    }

    #[test]
    fn a_stream_gives_what_the_whole_gives(encoding in encodings(), bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0_usize..60) {
        let cut = cut.min(bytes.len());
        let (mut stream, mut out) = (encoding.stream(), Vec::new());
        stream.push(&bytes[..cut], false, &mut out);
        stream.push(&bytes[cut..], true, &mut out);
        let out = String::from_utf8_lossy(&out);
        if encoding.decode(&bytes).is_exact {
            prop_assert_eq!(out, encoding.decode(&bytes).text);
        } else {
            prop_assert_eq!(out.contains(char::REPLACEMENT_CHARACTER), true);
        }
    }
}
