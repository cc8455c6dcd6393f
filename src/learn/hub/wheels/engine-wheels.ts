/** The wheels of the pinned packages, each with its SHA-256: what `tapir engines install` downloads or takes, and nothing else. */

/** A wheel whose content is known. */
export interface PinnedWheel {
  readonly filename: string;
  readonly sha256: string;
}

/** Wheels by system, as `linux x64`. Of those of a package, the first is downloaded; the others hold the same libraries, for other Pythons. */
export type WheelTable = ReadonlyMap<string, readonly PinnedWheel[]>;

/** As `sha256sum` writes it. `node scripts/engine-wheels.js` writes it anew from the package index after a package has another version. */
const SUMS: Readonly<Record<string, string>> = {
  'darwin arm64': `
f57d1cc75c77c18b2be8ab628d8e0a8e01f4be44f521823b6fba7ede31d708d3  openvino-2026.4.1-22982-cp314-cp314-macosx_11_0_arm64.whl
60496e3153122913c8a2fa69d86b3a77ccc4e2469db87d76eb8acb49a5d22d63  openvino-2026.4.1-22982-cp313-cp313-macosx_11_0_arm64.whl
726ac547b8474a5e7b145bc1ae5a8bb6fbcbb60b79bd9a611c67eec2c74b7a5f  openvino-2026.4.1-22982-cp312-cp312-macosx_11_0_arm64.whl
d3740853691ae4a9003bc3417a4625d848e2cc3251af4b815c59199b38be252a  openvino-2026.4.1-22982-cp311-cp311-macosx_11_0_arm64.whl
6c6ad38aefc3b0a7d1dbc7189c2be92bb876853f4681e1b1b9fbe1a382d5876f  openvino-2026.4.1-22982-cp310-cp310-macosx_11_0_arm64.whl
24c73d3c61a8b71c09bf512a294d37ff8ea6e4b0c65c1b136bb842bbbd6c9c31  openvino-2026.4.1-22982-cp314-cp314t-macosx_11_0_arm64.whl
8d0a91d44b43d931c3068b9134aed9770f27803e353c2b58c93e1700bb68bcca  onnxruntime_ep_webgpu-0.4.0-py3-none-macosx_14_0_universal2.whl
`,
  'linux x64': `
3631dd889dccf3d5087775948590a6609a662f90c24a9cf85bb4dfa0cdd7fd2f  openvino-2026.4.1-22982-cp314-cp314-manylinux_2_28_x86_64.whl
a9b637846c579d7b81b17b6585e0c7b1947574e8d13cf83d7307ce50cd2c352e  openvino-2026.4.1-22982-cp313-cp313-manylinux_2_28_x86_64.whl
6b4375c17ddcac83a5180349e2e2bb811185c261066e2a920659892d58ef0e3b  openvino-2026.4.1-22982-cp312-cp312-manylinux_2_28_x86_64.whl
2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf  openvino-2026.4.1-22982-cp311-cp311-manylinux_2_28_x86_64.whl
47dcccbab40a23aed1dc4af7c43a9c813cc61f684d66498e1627d407d5f2770b  openvino-2026.4.1-22982-cp310-cp310-manylinux_2_28_x86_64.whl
645e8788370b1037cc21d19078f2f235478292e23938b00ab4fe0d2614a5f7d0  openvino-2026.4.1-22982-cp314-cp314t-manylinux_2_28_x86_64.whl
5aacc98f394a13f4891c0a07e60479d8fb0b1ea6f3328b6b38cfc88f9dfb05ea  onnxruntime_gpu-1.30.0-cp314-cp314-manylinux_2_28_x86_64.whl
9aba23f903f434cc55d851aeb801afee19e287c202f4ab8f59d02f04caa90aed  onnxruntime_gpu-1.30.0-cp313-cp313-manylinux_2_28_x86_64.whl
6acc0f4b3d5ac5f2984432faa59dd8fcce6775f8b43a7140afa0f322c7a703b1  onnxruntime_gpu-1.30.0-cp312-cp312-manylinux_2_28_x86_64.whl
4fbf0c5d7b5fb99266c2e8a802e3e64af68bdc383e0f3c7349b985f1087eedaa  onnxruntime_gpu-1.30.0-cp311-cp311-manylinux_2_28_x86_64.whl
a4dfbe80d4167ff5bc269f266778ee6d0eb771fd9f3c0c4d83757e7ae42fe3c8  onnxruntime_gpu-1.30.0-cp314-cp314t-manylinux_2_28_x86_64.whl
675d519cab613bc42685ecb998f8e8e8c6d73143496681650d30ef14fedeade7  onnxruntime_gpu-1.30.0-cp313-cp313t-manylinux_2_28_x86_64.whl
7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548  nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171  nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_x86_64.whl
1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc  nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_x86_64.whl
6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3  nvidia_cufft-12.0.0.61-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b  nvidia_nvjitlink-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl
ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575  nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl
d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf  nvidia_cudnn_cu13-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl
5d8c961eda91a88961cad1fb7621f389f006b18497d6ea9ecf96f729f066cbfb  onnxruntime_ep_webgpu-0.4.0-py3-none-manylinux_2_28_x86_64.whl
3832643158c8c187fcab6db661cde2a8c06a2b3559d95d0f2411ac0e51c5e924  onnxruntime_ep_openvino-1.8.1-py3-none-manylinux_2_28_x86_64.whl
32f575c633d171b4edf4b53d3bb22b72a6c9c0a850d2982ce9a788a5d40d3298  onnxruntime_ep_nv_tensorrt_rtx_cu13-0.5.0-py3-none-manylinux_2_28_x86_64.whl
`,
  'linux arm64': `
b70a01f6961bf8fe4b647b14fb122be4d30ece02292a9831f9241a64be089676  openvino-2026.4.1-22982-cp314-cp314-manylinux_2_35_aarch64.whl
fc45339ff7d539de76e6d7b04135c120504c797cfc8c2a0dde3d2d616b30c758  openvino-2026.4.1-22982-cp313-cp313-manylinux_2_35_aarch64.whl
82efccb2f9f1bdc7e5a1996e05a3b719ebff9232dd54b44150d6d2e983a86b7d  openvino-2026.4.1-22982-cp312-cp312-manylinux_2_35_aarch64.whl
bea1eb3733c34ef331adc945da0ccda5937865031139073663be84c517ffda22  openvino-2026.4.1-22982-cp311-cp311-manylinux_2_35_aarch64.whl
c9fed6c278b3f0314a53b4366fe8811bd784f24a60335b318dff1e3ae3bbb5c0  openvino-2026.4.1-22982-cp310-cp310-manylinux_2_35_aarch64.whl
6c5672d6cc0fba4e22fd8d1352ffd7e395f6135da741e002bfad7a0344c183f2  openvino-2026.4.1-22982-cp314-cp314t-manylinux_2_35_aarch64.whl
17f660db53b1a509c63e721ac6784a2daa1c4e91a968523ee9986505ee5b0a55  onnxruntime_ep_webgpu-0.4.0-py3-none-manylinux_2_28_aarch64.whl
`,
  'win32 x64': `
96d5ecb8cca4d61a3eee754c9e477702509cf782eb45596c653a00ddb2176d96  openvino-2026.4.1-22982-cp314-cp314-win_amd64.whl
37c270c99d6de23439965e97cb5106389d3c8985f3b8bb90909a6ea0270db3f2  openvino-2026.4.1-22982-cp313-cp313-win_amd64.whl
4e04316abff1b99e29b8cbd38deaef9bde4739eba216d982d4b3981e456ecd87  openvino-2026.4.1-22982-cp312-cp312-win_amd64.whl
bfddae6d6d3ad240157b946f180c33d0ddfaaae7487995d929a4e6b4bc12b283  openvino-2026.4.1-22982-cp311-cp311-win_amd64.whl
45ad6947f404049cb54807638ad35a67c66c0c90d1e89ee6cc45f92021cb6c45  openvino-2026.4.1-22982-cp310-cp310-win_amd64.whl
c383422d3e7e457441ec88911da0b16ed5132f55b8c9fb21411749d3eff90a60  openvino-2026.4.1-22982-cp314-cp314t-win_amd64.whl
7db646669d1a2390551da675115ea125e68cb3d4d2c3a2d6e463372bf8d6ea87  onnxruntime_ep_webgpu-0.4.0-py3-none-win_amd64.whl
1acd878be173b02bb8b953460f2f59b121e5f6e47ebc6aad490c0590cf6718fb  onnxruntime_ep_openvino-1.8.1-py3-none-win_amd64.whl
609b19f7236c8522ef005a9f763003a78f492e5d871afad39fe1b247760eb3c7  onnxruntime_ep_nv_tensorrt_rtx_cu13-0.5.0-py3-none-win_amd64.whl
`,
};

export const ENGINE_WHEELS: WheelTable = new Map(
  Object.entries(SUMS).map(([system, lines]) => [
    system,
    Array.from(lines.matchAll(/^(\w{64}) {2}(\S+)$/gm), ([, sha256, filename]) => ({
      filename: filename!,
      sha256: sha256!,
    })),
  ]),
);
