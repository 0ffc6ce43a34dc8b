#pragma once

#include <string>

namespace zktesting::simulated {

class Server;

/// What a server answers to ruok, srvr, stat, mntr, cons, dump, wchs, wchc, wchp, envi, conf, isro, and to words that it does
/// not know.
std::string answer_four_letter_word(const Server& server, const std::string& word);

}  // namespace zktesting::simulated
