use std::io::Cursor;

use super::*;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

const FORMATS: [ImageFormat; 6] = [
    ImageFormat::Png,
    ImageFormat::Jpeg,
    ImageFormat::WebP,
    ImageFormat::Gif,
    ImageFormat::Bmp,
    ImageFormat::Tiff,
];

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Red grows to the right, green downwards; blue is constant.
fn slopes(width: u32, height: u32) -> DynamicImage {
    let pixel = |x: u32, y: u32| Rgb([(255 * x / width) as u8, (255 * y / height) as u8, 77]);
    RgbImage::from_fn(width, height, pixel).into()
}

fn refusal(bytes: &[u8], input: Shape) -> String {
    decode_image(bytes, input).unwrap_err().to_string()
}

#[test]
fn an_image_of_the_right_size_keeps_its_pixels() {
    let image = slopes(5, 4);
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Bmp, ImageFormat::Tiff] {
        let read = decode_image(&encoded(&image, format), Shape::new(3, 4, 5)).unwrap();
        for (channel, plane) in read.pixels().chunks_exact(20).enumerate() {
            let expected: Vec<u8> = image.to_rgb8().pixels().map(|pixel| pixel.0[channel]).collect();
            assert_eq!(plane, expected, "{format:?}");
        }
    }
}

#[test]
fn every_kind_of_file_shows_the_same_picture() {
    let image = slopes(96, 96);
    let read = |format| decode_image(&encoded(&image, format), Shape::image(32)).unwrap();
    let png = read(ImageFormat::Png);
    for format in FORMATS {
        let other = read(format);
        let apart = png.pixels().iter().zip(other.pixels()).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        // A GIF has 256 colors.
        let allowed = if format == ImageFormat::Gif { 24 } else { 6 };
        assert!(apart <= allowed, "{format:?} is {apart} off");
    }
}

#[test]
fn the_centre_of_a_long_image_is_taken() {
    // Three squares side by side, of which only the middle one is bright.
    let bright = |x: u32, _: u32| Rgb([if (64..128).contains(&x) { 255 } else { 0 }; 3]);
    let wide: DynamicImage = RgbImage::from_fn(192, 64, bright).into();
    for image in [wide.clone(), wide.rotate90()] {
        let read = decode_image(&encoded(&image, ImageFormat::Png), Shape::image(16)).unwrap();
        assert!(read.pixels().iter().all(|pixel| *pixel == 255));
    }
    // A strip is no reason to build a huge image on the way.
    let strip = RgbImage::from_pixel(4000, 1, Rgb([9; 3])).into();
    let read = decode_image(&encoded(&strip, ImageFormat::Png), Shape::image(224)).unwrap();
    assert!(read.pixels().iter().all(|pixel| *pixel == 9));
}

#[test]
fn gray_networks_get_luminance_and_transparency_is_dropped() {
    let clear = RgbaImage::from_pixel(8, 8, Rgba([200, 200, 200, 3])).into();
    let bytes = encoded(&clear, ImageFormat::Png);
    assert!(decode_image(&bytes, Shape::new(1, 8, 8)).unwrap().pixels().iter().all(|pixel| *pixel == 200));
    assert!(decode_image(&bytes, Shape::new(3, 8, 8)).unwrap().pixels().iter().all(|pixel| *pixel == 200));
    assert!(refusal(&bytes, Shape::new(4, 8, 8)).contains("takes 4x8x8; image files can be made into 1"));
}

#[test]
fn cut_altered_and_foreign_files_are_refused() {
    for format in FORMATS {
        let bytes = encoded(&slopes(40, 30), format);
        for end in [0, 1, 5, 20, bytes.len() / 2] {
            let cut = decode_image(&bytes[..end], Shape::image(8));
            assert!(cut.is_err(), "{format:?} {end}");
        }
        for place in 0..bytes.len().min(200) {
            let mut altered = bytes.clone();
            altered[place] ^= 0x55;
            if let Ok(image) = decode_image(&altered, Shape::image(8)) {
                assert_eq!(image.shape(), Shape::image(8));
            }
        }
    }
    assert!(
        refusal(b"%PDF-1.7 and so on", Shape::image(8)).contains("expected a whole PNG, JPEG, WebP, GIF")
    );
}

#[test]
fn a_header_that_promises_too_much_is_refused_before_anything_is_allocated() {
    // The header of a PNG states its size at byte 16; its checksum follows at byte 29.
    let mut bytes = encoded(&slopes(4, 4), ImageFormat::Png);
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let checksum = crc(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    let message = refusal(&bytes, Shape::image(8));
    assert!(message.contains("the image is 65536x65536; expected at most 67108864 pixels"), "{message}");
    assert!(refusal(&vec![0; MAX_FILE_BYTES as usize + 1], Shape::image(8)).contains("longer than 67108864"));
}

/// The checksum of PNG chunks, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[test]
fn a_folder_says_what_of_it_is_taken_and_what_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("inner")).unwrap();
    fs::write(at("rocket.jfif"), encoded(&slopes(9, 9), ImageFormat::Jpeg)).unwrap();
    for (name, format) in ["jpeg", "png", "webp", "gif", "tiff"].into_iter().zip([
        ImageFormat::Jpeg,
        ImageFormat::Png,
        ImageFormat::WebP,
        ImageFormat::Gif,
        ImageFormat::Tiff,
    ]) {
        fs::write(at(name), encoded(&slopes(9, 9), format)).unwrap();
    }
    let images = named_images(&[scratch.path().into()]).unwrap();
    assert_eq!(images.paths.len(), 6);
    assert!(images.notes[0].ends_with("6 images taken; left out: 1 folder, whose images are not looked for"));
    fs::write(at("notes.txt"), "BMP files begin with BM").unwrap();
    fs::write(at("empty"), "").unwrap();
    let note = &named_images(&[scratch.path().into()]).unwrap().notes[0];
    assert!(
        note.contains("2 files that are no images by name or beginning (empty, notes.txt); 1 folder"),
        "{note}"
    );
    let error = named_images(&[at("nothing.png")]).unwrap_err().to_string();
    assert!(error.contains("nothing.png does not exist"), "{error}");
    let input = PathBuf::from("-");
    assert_eq!(named_images(&[at("png"), input.clone()]).unwrap().paths, [at("png"), input.clone()]);
    assert!(matches!(named_images(&[input.clone(), input]), Err(ImageFileError::InputTwice)));
}

#[test]
fn a_pipe_is_an_image() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let paths = named_images(std::slice::from_ref(&pipe)).unwrap().paths;
    assert_eq!(paths, std::slice::from_ref(&pipe));
    let bytes = encoded(&slopes(9, 9), ImageFormat::Png);
    let writer = std::thread::spawn(move || fs::write(pipe, bytes).unwrap());
    load_image(&paths[0], Shape::image(4)).unwrap();
    writer.join().unwrap();
}

#[test]
fn folders_are_listed_by_name_and_say_what_they_lack() {
    let folder = std::env::temp_dir().join(format!("sordino-images-{}", std::process::id()));
    fs::create_dir_all(folder.join("inner.png")).unwrap();
    let error = list_images(&folder).unwrap_err().to_string();
    assert!(error.contains("holds no image; expected files"), "{error}");
    for (name, format) in [("b.PNG", FORMATS[0]), ("a.jpeg", FORMATS[1]), ("c.webp", FORMATS[2])] {
        fs::write(folder.join(name), encoded(&slopes(9, 9), format)).unwrap();
    }
    fs::write(folder.join("notes.txt"), "no image").unwrap();
    fs::write(folder.join(".hidden.png"), "no image").unwrap();
    let names: Vec<_> =
        list_images(&folder).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["a.jpeg", "b.PNG", "c.webp"]);
    assert_eq!(load_images(&folder, Shape::image(4), None).unwrap().len(), 3);
    assert_eq!(load_images(&folder, Shape::image(4), Some(2)).unwrap().len(), 2);
    fs::write(folder.join("aa.png"), "no image").unwrap();
    let error = load_images(&folder, Shape::image(4), None).unwrap_err();
    assert!(error.to_string().contains("aa.png is not usable"), "{error}");
    fs::remove_dir_all(&folder).unwrap();
    assert!(list_images(&folder).unwrap_err().to_string().contains("cannot read"));
    assert!(load_image(&folder, Shape::image(4)).unwrap_err().to_string().contains("cannot read"));
}
